import { Marked, type TokenizerAndRendererExtension, type Tokens } from 'marked';
import { escaped } from './safe.ts';

/** A formula in TeX, without its dollars. */
export interface MathToken extends Tokens.Generic {
  type: 'math' | 'inline_math';
  text: string;
}

/** `$$…$$` and `\[…\]`, with nothing else on their lines. The length is limited, for texts that never close them. */
const BLOCK = /^(?:\$\$((?:[^$]|\$(?!\$)){1,2000}?)\$\$|\\\[([\s\S]{1,2000}?)\\\]) *(?:\n|$)/;
/**
 * `$…$`, `$$…$$` and `\(…\)`. `$5 and $6` is none: dollars before a blank close nothing, nor do those before a letter or a digit.
 * Nor are `/tmp/$$/a-$$` and `$HOME/$(pwd)`: a formula neither begins as the rest of a path, nor ends in what joins its parts.
 */
const INLINE =
  /^(?:\$\$(?!\s|\/|\.[a-z])((?:\\.|[^\\$\n]){1,1000}?)(?<![\s/:=-])\$\$(?![\w${])|\$(?![\s$/])((?:\\.|[^\\$\n]){1,1000}?)(?<![\s/:=-])\$(?![\w${])|\\\(([^\n]{1,1000}?)\\\))/i;

const block: TokenizerAndRendererExtension = {
  name: 'math',
  level: 'block',
  start: (source) => {
    const place = firstOf(source, '\n$$', '\n\\[');
    return place === undefined ? undefined : place + 1;
  },
  tokenizer(source) {
    const found = BLOCK.exec(source);
    return found ? { type: 'math', raw: found[0], text: (found[1] ?? found[2] ?? '').trim() } : undefined;
  },
  renderer: ({ text }) => `<code class="math">${escaped(String(text))}</code>`,
};

const inline: TokenizerAndRendererExtension = {
  name: 'inline_math',
  level: 'inline',
  start: (source) => firstOf(source, '$', '\\('),
  tokenizer(source) {
    const found = INLINE.exec(source);
    return found ? { type: 'inline_math', raw: found[0], text: (found[1] ?? found[2] ?? found[3] ?? '').trim() } : undefined;
  },
  renderer: ({ text }) => `<code class="math">${escaped(String(text))}</code>`,
};

function firstOf(source: string, ...wanted: string[]): number | undefined {
  const places = wanted.map((one) => source.indexOf(one)).filter((at) => at >= 0);
  return places.length ? Math.min(...places) : undefined;
}

/** How the page writes Markdown: GitHub's, with formulas. */
export const MARKED = new Marked({ gfm: true, extensions: [block, inline] }).defaults;
const WITHOUT = new Marked({ gfm: true }).defaults;

/** How the page reads a text. It does not look for formulas where none can be: that takes time at each word. */
export function rulesFor(text: string): typeof MARKED {
  return /\$|\\[([]/.test(text) ? MARKED : WITHOUT;
}
