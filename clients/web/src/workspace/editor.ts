import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { css } from '@codemirror/lang-css';
import { html } from '@codemirror/lang-html';
import { javascript } from '@codemirror/lang-javascript';
import { json } from '@codemirror/lang-json';
import { markdown } from '@codemirror/lang-markdown';
import { python } from '@codemirror/lang-python';
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from '@codemirror/language';
import { getChunks, getOriginalDoc, unifiedMergeView, updateOriginalDoc } from '@codemirror/merge';
import { highlightSelectionMatches, search, searchKeymap } from '@codemirror/search';
import { ChangeSet, EditorState, type Extension, Text } from '@codemirror/state';
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightSpecialChars,
  highlightTrailingWhitespace,
  keymap,
  lineNumbers,
} from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { HIDDEN, spelled } from '../conversation/safe.ts';
import { comparable } from '../review/difference.ts';
import { t } from '../i18n/index.ts';
import type { Change } from './changes.ts';

/** The page's colours by what they mean; style.css defines them for both themes. */
const COLOURS = HighlightStyle.define([
  { tag: [tags.keyword, tags.modifier, tags.operatorKeyword], color: 'var(--code-keyword)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--code-string)' },
  { tag: [tags.comment, tags.meta], color: 'var(--code-comment)', fontStyle: 'italic' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--code-number)' },
  { tag: [tags.function(tags.variableName), tags.definition(tags.variableName), tags.className], color: 'var(--code-name)' },
  { tag: tags.heading, fontWeight: 'bold' },
  { tag: tags.link, textDecoration: 'underline' },
]);

const THEME = EditorView.theme({
  '&': { color: 'var(--ink)', backgroundColor: 'var(--paper)', height: '100%', fontSize: '0.875rem' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.55' },
  '.cm-gutters': { backgroundColor: 'var(--paper)', color: 'var(--faint)', border: 'none' },
  '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'var(--tint)' },
  '.cm-cursor': { borderLeftColor: 'var(--ink)' },
  '&.cm-focused': { outline: '2px solid var(--accent)', outlineOffset: '-2px' },
  '.cm-selectionBackground, &.cm-focused .cm-selectionBackground': { backgroundColor: 'var(--selected) !important' },
  '.cm-changedLine, .cm-inlineChangedLine': { backgroundColor: 'var(--added) !important' },
  '.cm-deletedChunk': { backgroundColor: 'var(--removed) !important', paddingLeft: '6px', display: 'flow-root' },
  '.cm-changedText': { background: 'var(--added-strong) !important' },
  '.cm-deletedChunk .cm-deletedText, .cm-deletedText': { background: 'var(--removed-strong) !important' },
  // The buttons cover no text: where there is room, lines go around them.
  '.cm-deletedChunk .cm-chunkButtons': { position: 'static', display: 'flex', justifyContent: 'flex-end', padding: '2px' },
  '@media (width >= 600px)': { '.cm-deletedChunk .cm-chunkButtons': { float: 'inline-end' } },
  '.cm-chunkButtons button': {
    border: '1px solid var(--line)',
    borderRadius: '6px',
    cursor: 'pointer',
    margin: '0 3px',
    padding: '2px 10px',
    font: '0.8125rem/1.5 var(--sans)',
    color: 'var(--ink)',
    background: 'var(--paper)',
  },
  '.cm-chunkButtons button[name=reject]': { background: 'var(--paper)', color: 'var(--bad)', borderColor: 'var(--bad)' },
  '.cm-chunkButtons button[name=accept]': { background: 'var(--accent)', color: 'var(--on-accent)' },
  '.cm-panels': { backgroundColor: 'var(--raised)', color: 'var(--ink)' },
  '.cm-specialChar': { color: 'var(--bad)' },
});

function languageOf(path: string): Extension {
  const extension = /\.(\w+)$/.exec(path)?.[1]?.toLowerCase() ?? '';
  if (['js', 'mjs', 'cjs', 'jsx'].includes(extension)) return javascript({ jsx: true });
  if (['ts', 'tsx', 'mts'].includes(extension)) return javascript({ jsx: extension === 'tsx', typescript: true });
  if (extension === 'py') return python();
  if (extension === 'json') return json();
  if (['md', 'markdown'].includes(extension)) return markdown();
  if (['html', 'htm', 'svg', 'xml'].includes(extension)) return html();
  if (extension === 'css') return css();
  return [];
}

/** A hidden character as its code point. */
function shown(code: number, description: string | null): HTMLElement {
  const element = document.createElement('span');
  element.className = 'cm-specialChar';
  element.textContent = spelled(String.fromCodePoint(code));
  element.title = description ?? '';
  return element;
}

function basics(path: string, label: string): Extension[] {
  return [
    lineNumbers(),
    history(),
    drawSelection(),
    indentOnInput(),
    bracketMatching(),
    highlightActiveLine(),
    highlightSelectionMatches(),
    highlightSpecialChars({ specialChars: HIDDEN, render: shown }),
    EditorState.lineSeparator.of('\n'), // no other character ends a line, so none is lost
    search({ top: true }),
    syntaxHighlighting(COLOURS),
    THEME,
    EditorView.lineWrapping,
    EditorView.contentAttributes.of({ 'aria-label': label }),
    languageOf(path),
  ];
}

/** A shadow root, in which CodeMirror's styles are constructed sheets, which a strict policy allows. */
function rootIn(host: HTMLElement): ShadowRoot {
  const root = host.shadowRoot ?? host.attachShadow({ mode: 'open' });
  root.replaceChildren();
  return root;
}

export interface Editor {
  text(): string;
  /** Show another text, unless it is the same. */
  show(text: string): void;
  goTo(line: number): void;
  end(): void;
}

/** An editor of a file. `saved` is called with Ctrl-S. */
export function fileEditor(host: HTMLElement, path: string, text: string, label: string, on: { changed(): void; saved(): void }): Editor {
  const root = rootIn(host);
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: comparable(text, ''),
      extensions: [
        ...basics(path, label),
        keymap.of([{ key: 'Mod-s', preventDefault: true, run: () => (on.saved(), true) }, ...searchKeymap, ...historyKeymap, ...defaultKeymap]),
        EditorView.updateListener.of((update) => update.docChanged && on.changed()),
      ],
    }),
  });
  const ends = comparable(text, '') === text ? '\n' : '\r\n';
  return {
    text: () => view.state.doc.toString().replaceAll('\n', ends),
    show: (next) => {
      const plain = comparable(next, '');
      if (plain !== view.state.doc.toString()) view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: plain } });
    },
    goTo: (line) => {
      const at = view.state.doc.line(Math.max(1, Math.min(line, view.state.doc.lines))).from;
      view.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: 'center' }) });
      view.focus();
    },
    end: () => view.destroy(),
  };
}

export interface MergeEditor {
  acceptAll(): void;
  end(): void;
}

/**
 * The proposed text with the present one beside each hunk. Calls `changed` with what the user makes of it, and the lines of the
 * hunks about which nothing is decided: at once, and after each change.
 */
export function mergeEditor(
  host: HTMLElement,
  change: Change,
  label: string,
  changed: (text: string, undecided: readonly number[]) => void,
): MergeEditor {
  const root = rootIn(host);
  const proposed = change.after ?? '';
  const [doc, original] = [comparable(proposed, change.before ?? ''), comparable(change.before ?? '', proposed)];
  const ends = doc === proposed ? '\n' : '\r\n';
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc,
      extensions: [
        ...basics(change.path, label),
        keymap.of([...searchKeymap, ...historyKeymap, ...defaultKeymap, indentWithTab]),
        highlightTrailingWhitespace(),
        EditorState.phrases.of({ Accept: t('review.accept'), Reject: t('review.reject'), '$ unchanged lines': t('review.unchanged') }),
        unifiedMergeView({ original: Text.of(original.split('\n')), mergeControls: true, collapseUnchanged: { margin: 3, minSize: 6 } }),
        EditorView.updateListener.of(() => tell()),
      ],
    }),
  });
  const tell = () => {
    const { chunks } = getChunks(view.state) ?? { chunks: [] };
    const { doc } = view.state;
    changed(doc.toString().replaceAll('\n', ends), chunks.map((chunk) => doc.lineAt(Math.min(chunk.fromB, doc.length)).number));
  };
  tell();
  return {
    acceptAll: () => {
      const { doc: now } = view.state;
      const before = getOriginalDoc(view.state);
      const changes = ChangeSet.of({ from: 0, to: before.length, insert: now }, before.length);
      view.dispatch({ effects: updateOriginalDoc.of({ doc: now, changes }), userEvent: 'accept' });
    },
    end: () => view.destroy(),
  };
}
