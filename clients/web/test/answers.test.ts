import { Lexer, type Token } from 'marked';
import { describe, expect, test } from 'vitest';
import { Blocks } from '../src/conversation/blocks.ts';
import { highlighted } from '../src/conversation/highlight.ts';
import { MARKED } from '../src/conversation/math_tokens.ts';

const KNOWN = [
  ...['js', 'ts', 'tsx', 'python', 'json', 'md', 'html', 'css', 'bash', 'c', 'cpp', 'cs', 'dart', 'dockerfile', 'go', 'java'],
  ...['kotlin', 'lua', 'ruby', 'rust', 'scala', 'sql', 'swift', 'toml', 'yaml'],
];
const CODES = [
  '',
  '\n\n',
  'def f(x: int) -> str:\n\treturn "a" # b\n',
  'key: [1, "two"]\n\n- x\n',
  '<script>alert(1)</script>\n<!-- </style> -->',
  '"never closed\n/* nor this\n```\n<<EOF\n$(\'',
  `${'({['.repeat(2000)}\u202e\ud800\0`,
];
const kinds = (code: string, language: string) =>
  Object.fromEntries((highlighted(code, language) ?? []).filter(([, kind]) => kind).map(([text, kind]) => [text, kind]));

describe('a code in colours', () => {
  test.each(KNOWN)('is, in %s, the code', (language) => {
    for (const code of CODES) expect(highlighted(code, language)!.map(([text]) => text).join('')).toBe(code);
  });

  test('is the code, however deep it is nested', () => {
    const code = '> '.repeat(20_000);
    expect(highlighted(code, 'md')!.map(([text]) => text).join('')).toBe(code);
  });

  test('has the kinds of its language', () => {
    expect(kinds('def f():\n    return "a"  # why\n', 'python')).toMatchObject({ def: 'keyword', '"a"': 'string', '# why': 'comment' });
    expect(kinds('let x: number = 1;', 'ts')).toMatchObject({ let: 'keyword', '1': 'number', number: 'name' });
    expect(kinds('if true; then echo "a"; fi', 'bash')).toMatchObject({ if: 'keyword', '"a"': 'string' });
    expect(kinds('func main() { return }', 'go')).toMatchObject({ func: 'keyword', return: 'keyword' });
    expect(kinds('void main() {\n  return 1;\n}', 'dart')).toMatchObject({ return: 'keyword', '1': 'number' });
  });

  test('may be named by its file', () => {
    for (const name of ['src/main.py', 'Python', 'python:src/main.py']) expect(kinds('def f(): pass', name)['def']).toBe('keyword');
  });

  test.each(['', 'mermaid', 'constructor', '__proto__', 'toString', '.', '../..', '<img>', 'a.constructor'])('is plain in %j', (name) => {
    expect(highlighted('def f(): pass', name)).toBeUndefined();
  });
});

describe('formulas', () => {
  const tokens = (text: string) => {
    const found: string[] = [];
    const look = (token: Token) => {
      if (token.type === 'math' || token.type === 'inline_math') found.push(`${token.type} ${(token as unknown as { text: string }).text}`);
      for (const inner of (token as { tokens?: Token[] }).tokens ?? []) look(inner);
    };
    new Lexer(MARKED).lex(text).forEach(look);
    return found;
  };

  test('stand between dollars, or between brackets with backslashes', () => {
    expect(tokens('It is $a^2$, or \\(b_1\\).')).toEqual(['inline_math a^2', 'inline_math b_1']);
    expect(tokens('It is $$a^2$$, then.')).toEqual(['inline_math a^2']);
    expect(tokens('$-x$ and $.5$, $$\\frac{a}{b}.$$')).toEqual(['inline_math -x', 'inline_math .5', 'inline_math \\frac{a}{b}.']);
    expect(tokens('So:\n\n$$\nx = 1\n$$\n\nand\n\n\\[\ny\n\\]\n')).toEqual(['math x = 1', 'math y']);
  });

  test.each([
    ...['It is $5 and $6.', 'US$ 5, $ x $', '`$a$`', '```\n$$x$$\n```', 'a \\$5\\$ b', '$HOME/$USER1', 'the shells $$ and $$'],
    ...['to /tmp/$$/a-$$', 'to /tmp/$$.log and /tmp/a$$', '$HOME/$(pwd)', '$PATH:$(pwd)', 'from ${A} to ${B}', '${A}:${B}'],
  ])('%j has none', (text) => {
    expect(tokens(text)).toEqual([]);
  });

});

describe('a part with thousands of signs', () => {
  test.each(['a[*', '[', '$$ a ', '\n$$', '\n\\[', '_a'])('such as %j is plain', (sign) => {
    expect(new Blocks().take(`# Title\n\n${sign.repeat(6_000)}`).at(-1)!.kind).toBe('plain');
  });

  test('of which few are in each is Markdown', () => {
    const table = `| a | [b](https://c) |\n|---|---|\n${'| *1* | [2](https://3) |\n'.repeat(200)}`;
    expect(new Blocks().take(table).map(({ kind }) => kind)).toEqual(['markdown']);
  });
});
