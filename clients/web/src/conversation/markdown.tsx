import DOMPurify from 'dompurify';
import { Renderer, Parser, type Token, type Tokens } from 'marked';
import type { VNode } from 'preact';
import { memo } from 'preact/compat';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { counted } from '../i18n/index.ts';
import { CopyButton } from '../shell/copy.tsx';
import { type Block, Blocks, LARGE } from './blocks.ts';
import type { Piece } from './highlight.ts';
import { MARKED, type MathToken } from './math_tokens.ts';
import { escaped } from './safe.ts';

/** Characters from which on a cell of a table is a sentence. */
const SENTENCE_CHARS = 24;

/** The model's HTML is text, its images are links, and its links lead to web pages and mail only. */
class SafeRenderer extends Renderer {
  override html({ text }: Tokens.HTML | Tokens.Tag): string {
    return escaped(text);
  }

  override image({ href, text }: Tokens.Image): string {
    return escaped(`![${text}](${href})`);
  }

  override link({ href, tokens }: Tokens.Link): string {
    const shown = this.parser.parseInline(tokens);
    if (!/^(https?:|mailto:)/i.test(href)) return shown;
    return `<a href="${escaped(href)}" title="${escaped(href)}" target="_blank" rel="noopener noreferrer nofollow">${shown}</a>`;
  }

  override table(token: Tokens.Table): string {
    return `<div class="scroll">${super.table(token)}</div>`;
  }

  /** A cell with a sentence in it stays so wide that it can be read beside long names. */
  override tablecell(cell: Tokens.TableCell): string {
    const made = super.tablecell(cell);
    return cell.text.length > SENTENCE_CHARS && /\s/.test(cell.text) ? made.replace(/^<t[dh]/, '$& class="sentence"') : made;
  }

  override listitem(item: Tokens.ListItem): string {
    const made = super.listitem(item);
    return item.task ? made.replace('<li>', '<li class="task">') : made;
  }

  override checkbox({ checked }: Tokens.Checkbox): string {
    return checked ? '☑ ' : '☐ ';
  }
}

const RENDERER = new SafeRenderer();

/** The second barrier: whatever the first lets through, these elements and attributes are all there is. */
const ALLOWED = {
  ALLOWED_TAGS: [
    ...['p', 'br', 'hr', 'em', 'strong', 'del', 'code', 'pre', 'blockquote', 'ul', 'ol', 'li', 'a', 'div', 'span'],
    ...['h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'table', 'thead', 'tbody', 'tr', 'th', 'td'],
  ],
  ALLOWED_ATTR: ['href', 'title', 'target', 'rel', 'start', 'class', 'align'],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
  ADD_URI_SAFE_ATTR: ['title', 'target', 'rel', 'start', 'class', 'align'],
  RETURN_DOM_FRAGMENT: true as const,
};

/** A text of the model, which may still grow. */
export function Markdown({ text }: { text: string }) {
  const blocks = useRef<Blocks | undefined>(undefined);
  blocks.current ??= new Blocks();
  return (
    <div class="markdown" dir="auto">
      {blocks.current.take(text).map((block, index) => (
        <BlockView key={index} block={block} raw={block.raw} />
      ))}
    </div>
  );
}

const BlockView = memo(
  function BlockView({ block }: { block: Block; raw: string }): VNode | null {
    if (block.kind === 'plain') return <Long text={block.raw} />;
    const { token } = block;
    if (token.type === 'space' || token.type === 'def') return null;
    if (token.type === 'code') return <Code text={(token as Tokens.Code).text} language={(token as Tokens.Code).lang ?? ''} />;
    if (token.type === 'math') return <Formula tex={(token as MathToken).text} />;
    return <Html token={token} />;
  },
  (before, after) => before.raw === after.raw && before.block.kind === after.block.kind,
);

function Html({ token }: { token: Token }) {
  const element = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    let fragment: Node;
    try {
      fragment = DOMPurify.sanitize(Parser.parse([token], { ...MARKED, renderer: RENDERER }), ALLOWED);
    } catch {
      fragment = document.createTextNode(token.raw);
    }
    element.current!.replaceChildren(fragment);
    for (const scroll of element.current!.querySelectorAll('.scroll')) (scroll as HTMLElement).tabIndex = 0;
    void drawMath(element.current!.querySelectorAll('code.math'), false);
  }, [token]);
  return <div ref={element} />;
}

/** Put formulas in place of their sources, which stay where they are not TeX, or where the library cannot be loaded. */
async function drawMath(sources: Iterable<Element>, isDisplayed: boolean): Promise<void> {
  const found = [...sources];
  if (!found.length) return;
  const library = await import('./math.ts').catch(() => undefined);
  for (const source of found) {
    const drawn = source.isConnected && library?.mathOf(source.textContent ?? '', isDisplayed);
    if (drawn) source.replaceWith(drawn);
  }
}

/** A formula of its own. */
function Formula({ tex }: { tex: string }) {
  const element = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const source = Object.assign(document.createElement('code'), { className: 'math', textContent: tex });
    element.current!.replaceChildren(source);
    void drawMath([source], true);
  }, [tex]);
  return <div class="scroll" tabIndex={0} ref={element} />;
}

export function Code({ text, language }: { text: string; language: string }) {
  const name = language.split(/\s/)[0] ?? '';
  const isDiff = (name === 'diff' || name === 'patch') && text.length <= LARGE;
  return (
    <figure class="code">
      <figcaption>
        <span>{name}</span>
        <CopyButton text={text} />
      </figcaption>
      <pre dir="ltr" tabIndex={0}>
        <code>
          {isDiff ? <Changes text={text} /> : text.length <= LARGE ? <Coloured text={text} language={name} /> : <Long text={text} inline />}
        </code>
      </pre>
    </figure>
  );
}

/** Milliseconds between two looks at a code that is being written. */
const LOOK_AGAIN_MS = 150;

/** A code in colours. It is plain until the highlighter is loaded, and so is what was written since its last look. */
function Coloured({ text, language }: { text: string; language: string }) {
  const [seen, setSeen] = useState<{ text: string; pieces: readonly Piece[] } | undefined>();
  const newest = useRef(text);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  newest.current = text;
  useEffect(() => {
    if (!language || timer.current !== undefined) return;
    timer.current = setTimeout(() => {
      void import('./highlight.ts').then(
        ({ highlighted }) => {
          timer.current = undefined;
          const now = newest.current;
          const pieces = highlighted(now, language);
          if (pieces) setSeen({ text: now, pieces });
        },
        () => {}, // It stays plain.
      );
    }, seen ? LOOK_AGAIN_MS : 0);
  }, [text, language]);
  useEffect(() => () => clearTimeout(timer.current), []);
  if (!seen || !text.startsWith(seen.text)) return <>{text}</>;
  return (
    <>
      {seen.pieces.map(([piece, kind], index) => (kind ? <span key={index} class={`of-${kind}`}>{piece}</span> : piece))}
      {text.slice(seen.text.length)}
    </>
  );
}

/** The lines of a diff, those that are added and removed in their colours. */
function Changes({ text }: { text: string }) {
  const kindOf = (line: string) => (/^\+(?!\+\+ )/.test(line) ? 'added' : /^-(?!-- )/.test(line) ? 'removed' : '');
  return (
    <span class="changes">
      {text.split('\n').map((line, index) => (
        <span key={index} class={kindOf(line)}>
          {`${line}\n`}
        </span>
      ))}
    </span>
  );
}

/** A text of any length: its beginning, and the rest on wish. */
export function Long({ text, inline = false, most = LARGE }: { text: string; inline?: boolean; most?: number }) {
  const [shown, setShown] = useState(most);
  const rest = text.length - shown;
  const words = rest > 0 ? text.slice(0, shown) : text;
  return (
    <>
      {inline ? words : <p class="plain">{words}</p>}
      {rest > 0 && (
        <button type="button" class="quiet" onClick={() => setShown(shown + 10 * LARGE)}>
          {counted('more', rest)}
        </button>
      )}
    </>
  );
}
