import DOMPurify from 'dompurify';
import { Renderer, Parser, type Token, type Tokens } from 'marked';
import type { VNode } from 'preact';
import { memo } from 'preact/compat';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { n, t } from '../i18n/index.ts';
import { CopyButton } from '../shell/copy.tsx';
import { type Block, Blocks, LARGE } from './blocks.ts';

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

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
}

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
    return <Html token={token} />;
  },
  (before, after) => before.raw === after.raw && before.block.kind === after.block.kind,
);

function Html({ token }: { token: Token }) {
  const element = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    let fragment: Node;
    try {
      fragment = DOMPurify.sanitize(Parser.parse([token], { renderer: RENDERER }), ALLOWED);
    } catch {
      fragment = document.createTextNode(token.raw);
    }
    element.current!.replaceChildren(fragment);
    for (const scroll of element.current!.querySelectorAll('.scroll')) (scroll as HTMLElement).tabIndex = 0;
  }, [token]);
  return <div ref={element} />;
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
          {isDiff ? <Changes text={text} /> : <Long text={text} inline />}
        </code>
      </pre>
    </figure>
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
          {t('more', { n: n(rest) })}
        </button>
      )}
    </>
  );
}
