import { Lexer, type Token } from 'marked';
import { rulesFor } from './math_tokens.ts';

/** Characters of a block above which it is no longer Markdown: a hostile answer may be one line of megabytes. */
export const LARGE = 20_000;

/** Brackets and stars above which it is none either: which belong together is found by trying. */
const MOST_SIGNS = 2_000;

export type Block = { kind: 'markdown'; raw: string; token: Token } | { kind: 'plain'; raw: string };

/**
 * A text that only grows as blocks. What is before the last block does not change any more, so a new piece of text costs what
 * the last block costs.
 */
export class Blocks {
  #done: Block[] = [];
  #doneChars = 0;
  #isPlain = false;

  take(text: string): readonly Block[] {
    const rest = text.slice(this.#doneChars);
    if (this.#isPlain) return [...this.#done, { kind: 'plain', raw: rest }];
    if (runsOf(rest).some(isHostile)) {
      this.#isPlain = true;
      return [...this.#done, { kind: 'plain', raw: rest }];
    }
    const tokens = new Lexer(rulesFor(rest)).lex(rest);
    const blocks = tokens.map((token): Block => ({ kind: 'markdown', raw: token.raw, token }));
    // White space after a block may yet turn out to be inside of it, as in a list.
    let last = blocks.length - 1;
    while (last > 0 && tokens[last]!.type === 'space') last--;
    const stable = blocks.slice(0, Math.max(last, 0));
    this.#done = [...this.#done, ...stable];
    this.#doneChars += stable.reduce((sum, block) => sum + block.raw.length, 0);
    return [...this.#done, ...blocks.slice(stable.length)];
  }
}

/** The parts between empty lines: none is less than one block. */
function runsOf(text: string): readonly string[] {
  return text.split('\n\n');
}

/** Whether a part would take seconds to read as Markdown: the time grows with the square of its signs. */
function isHostile(run: string): boolean {
  return run.length > LARGE || (run.length > MOST_SIGNS && (run.match(/[[\]*_$]/g)?.length ?? 0) > MOST_SIGNS);
}
