// Lines of a text that differ from the wanted ones only in whitespace: at their ends, or in the indentation of all.
// The same as codelab_client's tools/whitespace.py, so that an edit lands in the same place in every client.

/** Places with the wanted words that are looked at; if there are more, none is the one that was meant. */
const PLACES = 10;

/** Characters `start` to `end` of the text, its lines `first` to `last`, and what replaces them. */
export interface Near {
  start: number;
  end: number;
  first: number;
  last: number;
  fresh: string;
}

const words = (text: string) => text.split(/\s+/).filter(Boolean).join(' ');
const begin = (line: string) => line.slice(0, line.length - line.trimStart().length);
const withoutEnd = (text: string, end: string) => (text.endsWith(end) ? text.slice(0, -end.length) : text);

/**
 * The only place where whole lines of `text` are those of `old` but for whitespace, undefined if there is not just one.
 * What replaces them is indented as they are. Nothing is near an edit of whitespace alone.
 */
export function nearly(text: string, old: string, fresh: string): Near | undefined {
  const isEnded = old.endsWith('\n');
  const wanted = withoutEnd(old, '\n').split('\n');
  if (!old.trim() || words(old) === words(fresh)) return undefined;
  const lines = text.split('\n');
  const places = placesOf(lines, wanted);
  if (places.length > PLACES) return undefined;
  const fitting = places.flatMap((place) => {
    const indented = indentedAs(lines.slice(place, place + wanted.length), wanted, fresh.split('\n'));
    return indented ? [{ place, indented }] : [];
  });
  const found = fitting[0];
  if (!found || fitting.length > 1) return undefined;
  const last = found.place + wanted.length - 1;
  const start = lengthOf(lines.slice(0, found.place));
  let end = start + lengthOf(lines.slice(found.place, last + 1));
  let made = found.indented.join('\n');
  if (last === lines.length - 1) {
    end -= 1; // The last line has no end, whatever the wanted one has.
    if (isEnded) made = withoutEnd(withoutEnd(made, '\n'), '\r');
  } else if (!isEnded) end -= lines[last]!.endsWith('\r') ? 2 : 1;
  return { start, end, first: found.place + 1, last: last + 1, fresh: made };
}

const lengthOf = (lines: readonly string[]) => lines.reduce((sum, line) => sum + line.length + 1, 0);

/** The numbers, from 0, of the lines from which on all lines have the wanted words: the first few. */
function placesOf(lines: readonly string[], wanted: readonly string[]): number[] {
  const [text, searched] = [lines, wanted].map((each) => `\n${each.map((line) => `${line.trim()}\n`).join('')}`) as [string, string];
  const places: number[] = [];
  let [line, counted] = [0, 0];
  for (let at = text.indexOf(searched); at >= 0 && places.length <= PLACES; at = text.indexOf(searched, at + 1)) {
    for (; counted < at; counted++) if (text[counted] === '\n') line++;
    places.push(line);
  }
  return places;
}

/** The fresh lines, indented as `lines` are compared with `wanted`; undefined if it is not the same for all of those. */
function indentedAs(lines: readonly string[], wanted: readonly string[], fresh: readonly string[]): string[] | undefined {
  const pairs = lines.flatMap((line, index) => (line.trim() ? [[begin(line), begin(wanted[index]!)] as const] : []));
  const [line, other] = pairs[0]!;
  const more = line.endsWith(other) ? line.slice(0, line.length - other.length) : '';
  const less = !more && other.endsWith(line) ? other.slice(0, other.length - line.length) : '';
  const indented = (text: string) => more + text.slice(less.length);
  if (!pairs.every(([is, was]) => was.startsWith(less) && is === indented(was))) return undefined;
  if (fresh.some((text) => text.trim() && !text.startsWith(less))) return undefined;
  return fresh.map((text) => (text.trim() ? indented(text) : text));
}
