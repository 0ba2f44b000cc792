/** Characters of an output's beginning and of its end that are kept. */
const HALF = 500_000;

/** A command's output: all of it, or its beginning and its end if it is very long. */
export class Kept {
  #begin = "";
  #end = "";
  #lost = 0;

  add(text: string): void {
    const room = Math.max(0, HALF - this.#begin.length);
    this.#begin += text.slice(0, room);
    this.#end += text.slice(room);
    if (this.#end.length <= 2 * HALF) return;
    this.#lost += this.#end.length - HALF;
    this.#end = this.#end.slice(-HALF);
  }

  get text(): string {
    const gap = this.#lost ? `\n[${this.#lost} characters are left out here]\n` : "";
    return this.#begin + gap + this.#end;
  }
}
