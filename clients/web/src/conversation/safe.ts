import { HIDDEN_IN_PROSE, INVISIBLE, JOINERS } from './characters.ts';

const inClass = (ranges: readonly (readonly [number, number])[]) =>
  ranges.map(([first, last]) => `\\u{${first.toString(16)}}-\\u{${last.toString(16)}}`).join('');

/** A character that nobody sees, or that changes what is seen. */
export const HIDDEN = new RegExp(`[${inClass(INVISIBLE)}]`, 'gu');
/** In prose, a joiner is hidden only behind ASCII, which has nothing to join; a keycap is a digit with a joiner. */
const PROSE = new RegExp(`[${inClass(HIDDEN_IN_PROSE)}]|(?<=[\\0-\\x7f])(?<![0-9#*])[${inClass(JOINERS)}]`, 'gu');

/** A text that somebody decides about, with every hidden character as its code point; newlines, tabs and spaces stay. */
export function visible(text: string): string {
  return text.replace(HIDDEN, spelled);
}

/** The same for one line: newlines, tabs, and spaces at either end are visible too. */
export function visibleLine(text: string): string {
  return visible(text)
    .replaceAll('\n', '␊')
    .replaceAll('\t', '␉')
    .replace(/^ +| +$/g, (blanks) => '␠'.repeat(blanks.length));
}

/** A value as JSON in which every hidden character is an escape, for somebody who edits it. */
export function visibleJson(value: unknown): string {
  return JSON.stringify(value, null, 2).replace(HIDDEN, (char) =>
    [...Array(char.length).keys()].map((at) => `\\u${char.charCodeAt(at).toString(16).padStart(4, '0')}`).join(''),
  );
}

/** Prose, in which emoji stay readable. */
export function readable(text: string): string {
  return text.replace(PROSE, spelled);
}

/** A character as its code point. */
export function spelled(char: string): string {
  return `⟨U+${char.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}⟩`;
}

/** A text as HTML that shows it. */
export function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
}
