import { Lexer, type Token } from 'marked';

/** Characters of a block above which it is no longer Markdown: a hostile answer may be one line of megabytes. */
export const LARGE = 20_000;

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
    if (longestRun(rest) > LARGE) {
      this.#isPlain = true;
      return [...this.#done, { kind: 'plain', raw: rest }];
    }
    const tokens = new Lexer({ gfm: true }).lex(rest);
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

/** The length of the longest part without an empty line, which is the most that one block can have at once. */
function longestRun(text: string): number {
  if (text.length <= LARGE) return 0;
  let longest = 0;
  let start = 0;
  for (let at = text.indexOf('\n\n'); at >= 0; at = text.indexOf('\n\n', start)) {
    longest = Math.max(longest, at - start);
    start = at + 2;
  }
  return Math.max(longest, text.length - start);
}
