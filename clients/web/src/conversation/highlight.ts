import { c, cpp, csharp, dart, java, kotlin, scala } from '@codemirror/legacy-modes/mode/clike';
import { dockerFile } from '@codemirror/legacy-modes/mode/dockerfile';
import { go } from '@codemirror/legacy-modes/mode/go';
import { lua } from '@codemirror/legacy-modes/mode/lua';
import { ruby } from '@codemirror/legacy-modes/mode/ruby';
import { rust } from '@codemirror/legacy-modes/mode/rust';
import { shell } from '@codemirror/legacy-modes/mode/shell';
import { standardSQL } from '@codemirror/legacy-modes/mode/sql';
import { swift } from '@codemirror/legacy-modes/mode/swift';
import { toml } from '@codemirror/legacy-modes/mode/toml';
import { yaml } from '@codemirror/legacy-modes/mode/yaml';
import { type StreamParser, StringStream } from '@codemirror/streamparser';
import type { Parser } from '@lezer/common';
import { parser as css } from '@lezer/css';
import { highlightCode, tagHighlighter, tags } from '@lezer/highlight';
import { parser as html } from '@lezer/html';
import { parser as javascript } from '@lezer/javascript';
import { parser as json } from '@lezer/json';
import { parser as markdown } from '@lezer/markdown';
import { parser as python } from '@lezer/python';

/** A piece of a code, and what it is: a class of style.css, or empty. */
export type Piece = readonly [text: string, kind: string];

/** The same meanings, in the same colours, as in the editor. */
const KINDS = tagHighlighter([
  { tag: [tags.keyword, tags.modifier, tags.operatorKeyword, tags.tagName], class: 'keyword' },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], class: 'string' },
  { tag: [tags.comment, tags.meta], class: 'comment' },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], class: 'number' },
  {
    tag: [tags.function(tags.variableName), tags.function(tags.propertyName), tags.definition(tags.variableName)],
    class: 'name',
  },
  { tag: [tags.className, tags.typeName, tags.attributeName, tags.heading], class: 'name' },
]);

/** What the tokens of a stream parser are called. */
const STREAM_KINDS = new Map([
  ...['keyword', 'tag', 'operatorKeyword'].map((name) => [name, 'keyword'] as const),
  ...['string', 'string-2', 'regexp'].map((name) => [name, 'string'] as const),
  ...['comment', 'meta'].map((name) => [name, 'comment'] as const),
  ...['number', 'atom', 'bool'].map((name) => [name, 'number'] as const),
  ...['def', 'type', 'variable-3', 'builtin', 'attribute', 'header'].map((name) => [name, 'name'] as const),
]);

const typescript = javascript.configure({ dialect: 'ts jsx' });
const jsx = javascript.configure({ dialect: 'jsx' });

/** By the names that models give them, which are also the ends of files' names. */
const LANGUAGES = new Map<string, Parser | StreamParser<unknown>>([
  ...named(jsx, 'js', 'javascript', 'mjs', 'cjs', 'jsx'),
  ...named(typescript, 'ts', 'typescript', 'tsx', 'mts'),
  ...named(python, 'py', 'python', 'python3', 'pyi'),
  ...named(json, 'json', 'jsonc', 'json5'),
  ...named(markdown, 'md', 'markdown'),
  ...named(html, 'html', 'htm', 'xml', 'svg', 'vue'),
  ...named(css, 'css', 'scss'),
  ...named(shell, 'sh', 'bash', 'shell', 'zsh', 'console'),
  ...named(c, 'c', 'h'),
  ...named(cpp, 'cpp', 'c++', 'cc', 'hpp'),
  ...named(csharp, 'cs', 'csharp', 'c#'),
  ...named(dart, 'dart'),
  ...named(dockerFile, 'dockerfile', 'docker'),
  ...named(go, 'go', 'golang'),
  ...named(java, 'java'),
  ...named(kotlin, 'kotlin', 'kt'),
  ...named(lua, 'lua'),
  ...named(ruby, 'ruby', 'rb'),
  ...named(rust, 'rust', 'rs'),
  ...named(scala, 'scala'),
  ...named(standardSQL, 'sql'),
  ...named(swift, 'swift'),
  ...named(toml, 'toml', 'ini'),
  ...named(yaml, 'yaml', 'yml'),
]);

function named(language: Parser | StreamParser<unknown>, ...names: string[]): [string, Parser | StreamParser<unknown>][] {
  return names.map((name) => [name, language]);
}

/**
 * A code in pieces, which together are the code; undefined if its language is not known. `language` is what the model wrote
 * there: a name, or a file's.
 */
export function highlighted(code: string, language: string): readonly Piece[] | undefined {
  const name = language.toLowerCase();
  const found = LANGUAGES.get(name) ?? LANGUAGES.get(name.split(':')[0]!) ?? LANGUAGES.get(/\.(\w+)$/.exec(name)?.[1] ?? '');
  if (!found) return undefined;
  return 'token' in found ? streamed(code, found) : parsed(code, found);
}

function parsed(code: string, parser: Parser): readonly Piece[] {
  const pieces: Piece[] = [];
  try {
    highlightCode(
      code,
      parser.parse(code),
      KINDS,
      (text, classes) => pieces.push([text, classes.split(' ')[0]!]),
      () => pieces.push(['\n', '']),
    );
  } catch (error) {
    // It visits what stands in each other by recursion, for which some thousand brackets are too many.
    if (error instanceof RangeError) return [[code, '']];
    throw error;
  }
  return pieces;
}

function streamed(code: string, language: StreamParser<unknown>): readonly Piece[] {
  const pieces: Piece[] = [];
  const state = language.startState?.(2);
  const lines = code.split('\n');
  lines.forEach((line, index) => {
    const stream = new StringStream(line, 4, 2);
    if (stream.eol()) language.blankLine?.(state, 2);
    while (!stream.eol()) {
      const style = language.token(stream, state);
      // A parser may look at nothing first, but not for ever.
      if (stream.pos === stream.start) {
        const again = language.token(stream, state);
        if (stream.pos === stream.start) stream.next();
        pieces.push([stream.current(), kindOf(again)]);
      } else {
        pieces.push([stream.current(), kindOf(style)]);
      }
      stream.start = stream.pos;
    }
    if (index < lines.length - 1) pieces.push(['\n', '']);
  });
  return pieces;
}

function kindOf(style: string | null): string {
  return (style ?? '').split(/[ .]/).map((name) => STREAM_KINDS.get(name)).find(Boolean) ?? '';
}
