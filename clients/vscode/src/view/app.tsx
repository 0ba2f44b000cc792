import type { RefObject } from "preact";
import { memo } from "preact/compat";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Item, PlanItem, Surroundings, View } from "../model.ts";
import { MODES } from "../modes.ts";
import { Call } from "./call.tsx";
import { Composer } from "./composer.tsx";
import { tell } from "./host.ts";
import { Markdown } from "./markdown.tsx";

/** Pixels from the end within which the view follows what is written. */
const NEAR = 60;

export interface AppProps {
  view: View;
  suggested: { text: string; paths: readonly string[] };
  area: RefObject<HTMLTextAreaElement | null>;
}

export function App({ view: { items, around }, suggested, area }: AppProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  useLayoutEffect(() => {
    const element = scroller.current!;
    if (follows.current) element.scrollTop = element.scrollHeight;
  }, [items]);
  const scrolled = () => {
    const { scrollHeight, scrollTop, clientHeight } = scroller.current!;
    follows.current = scrollHeight - scrollTop - clientHeight < NEAR;
  };
  return (
    <main>
      <div class="scroller" ref={scroller} onScroll={scrolled} tabIndex={0} role="log" aria-label="Conversation">
        {around.hasEarlier && <button type="button" class="link" onClick={() => tell({ type: "earlier" })}>Earlier messages</button>}
        {!items.length && around.connection === "online" && <Welcome />}
        {items.map((item) => <ItemView key={item.id} item={item} actingMode={around.actingMode} />)}
      </div>
      <footer>
        {around.restriction && <p class="note" role="status">{around.restriction}</p>}
        <Connection around={around} />
        <Steps steps={around.plan} />
        <Queue queue={around.queue} />
        <Composer around={around} area={area} suggested={suggested} />
        <Choices around={around} />
      </footer>
    </main>
  );
}

function Welcome() {
  return (
    <div class="welcome">
      <p>Ask the agent about the files of this folder, or what to change in them.</p>
      <p>It reads by itself. Before it changes a file or runs a command, it shows you what, and you approve, edit or reject it.</p>
    </div>
  );
}

const ItemView = memo(function ItemView({ item, actingMode }: { item: Item; actingMode: string }) {
  switch (item.kind) {
    case "user":
      return (
        <article class={`user ${item.state}`} aria-label="You">
          <p class="plain" dir="auto">{item.text}</p>
          {item.attachments > 0 && <small>{item.attachments} attached</small>}
          {item.state === "refused" && <small class="problem">not sent</small>}
        </article>
      );
    case "text":
      return <article class="answer" aria-label="Agent" aria-busy={!item.isFinal}><Markdown text={item.text} /></article>;
    case "thought":
      return <details class="thought"><summary>Thoughts</summary><p class="plain" dir="auto">{item.text}</p></details>;
    case "call":
      return <Call item={item} actingMode={actingMode} />;
    case "plan":
      return <Steps steps={item.steps} />;
    case "note":
      return <p class={item.isProblem ? "problem" : "note"} role={item.isProblem ? "alert" : undefined}>{item.text}</p>;
  }
});

const SIGNS: Record<string, string> = { completed: "☑", in_progress: "▸" };

function Steps({ steps }: { steps: PlanItem["steps"] }) {
  if (!steps.length || steps.every(({ status }) => status === "completed")) return null;
  const done = steps.filter(({ status }) => status === "completed").length;
  return (
    <details class="plan" open>
      <summary>Plan {done}/{steps.length}</summary>
      <ul>{steps.map(({ text, status }, n) => <li key={n} class={status}><span aria-hidden="true">{SIGNS[status] ?? "☐"}</span> {text}</li>)}</ul>
    </details>
  );
}

function Queue({ queue }: { queue: Surroundings["queue"] }) {
  if (!queue.length) return null;
  return (
    <ul class="queue" aria-label="Messages that wait">
      {queue.map(({ id, text, isWhole }) => (
        <li key={id}>
          <span dir="auto">{text}{isWhole ? "" : "…"}</span>
          <button type="button" class="link" onClick={() => tell({ type: "withdraw", id })}>Withdraw</button>
        </li>
      ))}
    </ul>
  );
}

const STATUS: Record<string, string> = { thinking: "The agent thinks …", executing_tool: "A tool runs …", waiting_approval: "The agent waits for you" };

/** One line: what the agent does, or what is wrong with the connection. */
function Connection({ around: { connection, trouble, needsToken, status } }: { around: Surroundings }) {
  const words = { connecting: "Connecting …", online: STATUS[status] ?? "", offline: "Not connected", busy: "The server is busy", ended: "Not connected" }[connection];
  return (
    <p class={`status ${connection}`} role="status">
      {trouble ? `${words}: ${trouble}` : words}{" "}
      {needsToken && <button type="button" onClick={() => tell({ type: "command", command: "token" })}>Set the token</button>}
      {connection === "ended" && (
        <>
          <button type="button" onClick={() => tell({ type: "command", command: "reconnect" })}>Connect</button>{" "}
          <button type="button" onClick={() => tell({ type: "command", command: "settings" })}>Settings</button>
        </>
      )}
    </p>
  );
}

function Choices({ around: { mode, model, models, usage, connection } }: { around: Surroundings }) {
  if (!mode) return null;
  const isOff = connection !== "online";
  return (
    <div class="choices">
      <select aria-label="Mode" disabled={isOff} value={mode} onChange={(event) => tell({ type: "mode", mode: event.currentTarget.value })}>
        {MODES.map((one) => <option key={one.mode} value={one.mode}>{one.text}</option>)}
      </select>
      <select aria-label="Model" disabled={isOff} value={model} onChange={(event) => tell({ type: "model", model: event.currentTarget.value })}>
        {[...new Set([model, ...models])].map((name) => <option key={name} value={name}>{name}</option>)}
      </select>
      <small>{usage}</small>
    </div>
  );
}
