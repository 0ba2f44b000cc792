import type { Token, Tokens } from "marked";
import { type ComponentChildren } from "preact";
import { memo } from "preact/compat";
import { useRef } from "preact/hooks";
import { type Block, Blocks } from "../../../web/src/conversation/blocks.ts";

/** Nested deeper, a text is shown as it was written. */
const DEEPEST = 20;
/** Where a link of a model may lead. Nothing opens before the user clicks, and the editor asks about unknown hosts. */
const LINK = /^(https?:|mailto:)/i;

/** A text of the model, which may still grow. It becomes elements, never HTML: what it has of that is shown as text. */
export function Markdown({ text }: { text: string }) {
  const blocks = useRef<Blocks | undefined>(undefined);
  blocks.current ??= new Blocks();
  return (
    <div class="markdown" dir="auto">
      {blocksOf(blocks.current, text).map((block, n) => (
        <BlockView key={n} block={block} />
      ))}
    </div>
  );
}

function blocksOf(blocks: Blocks, text: string): readonly Block[] {
  try {
    return blocks.take(text);
  } catch {
    return [{ kind: "plain", raw: text }]; // too deep for the parser
  }
}

const BlockView = memo(
  ({ block }: { block: Block }) => (block.kind === "plain" ? <p class="plain">{block.raw}</p> : <>{drawn(block.token, 0)}</>),
  (before, after) => before.block.raw === after.block.raw && before.block.kind === after.block.kind,
);

/** A token as elements. */
export function drawn(token: Token, depth: number): ComponentChildren {
  if (depth > DEEPEST) return token.raw;
  const inner = () => all((token as Tokens.Generic).tokens ?? [], depth + 1);
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "paragraph":
      return <p>{inner()}</p>;
    case "heading":
      return <p class={`heading h${(token as Tokens.Heading).depth}`}>{inner()}</p>;
    case "strong":
      return <strong>{inner()}</strong>;
    case "em":
      return <em>{inner()}</em>;
    case "del":
      return <del>{inner()}</del>;
    case "br":
      return <br />;
    case "hr":
      return <hr />;
    case "blockquote":
      return <blockquote>{inner()}</blockquote>;
    case "codespan":
      return <code>{(token as Tokens.Codespan).text}</code>;
    case "code":
      return <pre tabIndex={0}><code>{(token as Tokens.Code).text}</code></pre>;
    case "list":
      return list(token as Tokens.List, depth);
    case "table":
      return table(token as Tokens.Table, depth);
    case "link": {
      const { href } = token as Tokens.Link;
      return LINK.test(href) ? <a href={href} title={href}>{inner()}</a> : <>{inner()} ({href})</>;
    }
    case "text":
      return (token as Tokens.Text).tokens ? inner() : unescaped(token as Tokens.Text);
    case "escape":
      return (token as Tokens.Escape).text;
    default:
      return token.raw; // HTML, images, formulas
  }
}

function all(tokens: readonly Token[], depth: number): ComponentChildren[] {
  return tokens.map((token) => drawn(token, depth));
}

/** A text with its entities as the characters that they stand for; the elements escape what needs it. */
function unescaped({ raw }: Tokens.Text): string {
  const names: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0" };
  return raw.replace(/&(\w+);/g, (whole, name: string) => (Object.hasOwn(names, name) ? names[name]! : whole));
}

function list({ ordered, start, items }: Tokens.List, depth: number) {
  const drawnItems = items.map((item, n) => (
    <li key={n}>
      {item.task && (item.checked ? "☑ " : "☐ ")}
      {all(item.tokens.filter(({ type }) => (type as string) !== "checkbox"), depth + 1)}
    </li>
  ));
  return ordered ? <ol start={start === "" ? 1 : start}>{drawnItems}</ol> : <ul>{drawnItems}</ul>;
}

function table({ header, rows }: Tokens.Table, depth: number) {
  return (
    <div class="scroll" tabIndex={0}>
      <table>
        <thead>
          <tr>{header.map((cell, n) => <th key={n}>{all(cell.tokens, depth + 1)}</th>)}</tr>
        </thead>
        <tbody>
          {rows.map((row, n) => (
            <tr key={n}>{row.map((cell, m) => <td key={m}>{all(cell.tokens, depth + 1)}</td>)}</tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
