/** Whether all lines end with CRLF, and there is one. */
export function hasOnlyCrlf(text: string): boolean {
  return text.includes('\n') && !/(^|[^\r])\n/.test(text);
}

/** A text some of whose lines end with CRLF and some with LF, as one who sees no CR knows it: `plain`. */
export class MixedEnds {
  readonly plain: string;
  readonly #text: string;
  /** Where a CR is left out of the plain text. */
  readonly #shortened: number[] = [];

  constructor(text: string) {
    this.#text = text;
    this.plain = text.replaceAll('\r\n', '\n');
    for (let at = text.indexOf('\r\n'); at >= 0; at = text.indexOf('\r\n', at + 2)) this.#shortened.push(at - this.#shortened.length);
  }

  /** Where a place of the plain text is in the text. */
  place(at: number): number {
    let [low, high] = [0, this.#shortened.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#shortened[middle]! < at) low = middle + 1;
      else high = middle;
    }
    return at + low;
  }

  /** A text with the line ends of the part that it replaces, or of the line before it. */
  ended(fresh: string, start: number, end: number): string {
    if (fresh.includes('\r') || !fresh.includes('\n')) return fresh;
    const ends = this.#text.slice(start, end).match(/\r?\n/g) ?? [this.#near(start)];
    let number = 0;
    return fresh.replaceAll('\n', () => ends[Math.min(number++, ends.length - 1)]!);
  }

  #near(start: number): string {
    const before = this.#text.lastIndexOf('\n', start - 1);
    if (start > 0 && before >= 0) return this.#text[before - 1] === '\r' ? '\r\n' : '\n';
    return /\r?\n/.exec(this.#text)?.[0] ?? '\n';
  }
}
