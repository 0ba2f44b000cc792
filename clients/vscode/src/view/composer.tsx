import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { beginning, mentionOf } from "../../../web/src/conversation/suggestions.ts";
import type { Surroundings } from "../model.ts";
import { host, tell } from "./host.ts";

interface Suggested {
  text: string;
  paths: readonly string[];
}

/** The message that is being written. `suggested`: the newest files that the extension has named. */
export function Composer({ around, area, suggested }: { around: Surroundings; area: RefObject<HTMLTextAreaElement | null>; suggested: Suggested }) {
  const [draft, setDraft] = useState(host.getState()?.draft ?? "");
  const [mention, setMention] = useState<{ text: string; start: number } | undefined>(undefined);
  const [chosen, setChosen] = useState(0);
  const isRunning = around.status !== "idle" && around.status !== "error";
  const isOnline = around.connection === "online";
  const paths = mention && suggested.text === mention.text ? suggested.paths : [];

  useEffect(() => host.setState({ draft }), [draft]);
  useLayoutEffect(() => {
    const element = area.current!;
    element.style.height = "auto";
    element.style.height = `${Math.min(element.scrollHeight + 2, 240)}px`;
  }, [draft]);

  const look = () => {
    const element = area.current!;
    const begun = beginning(element.value.slice(0, element.selectionStart));
    if (begun?.kind !== "file") return setMention(undefined);
    if (begun.text !== mention?.text) setChosen(0);
    setMention(begun);
    tell({ type: "paths", text: begun.text });
  };
  const pick = (path: string) => {
    const element = area.current!;
    const text = `${element.value.slice(0, mention!.start)}${mentionOf(path)} `;
    setDraft(text + element.value.slice(element.selectionStart).replace(/^ /, ""));
    setMention(undefined);
    element.focus();
    requestAnimationFrame(() => element.setSelectionRange(text.length, text.length));
  };
  const send = () => {
    if (!draft.trim() || !isOnline) return;
    tell({ type: "prompt", text: draft });
    setDraft("");
    setMention(undefined);
  };
  const press = (event: KeyboardEvent) => {
    if (event.isComposing) return; // with an input method, Enter only ends the composition
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (paths.length && step) setChosen((chosen + step + paths.length) % paths.length);
    else if (paths.length && (event.key === "Enter" || event.key === "Tab")) pick(paths[chosen]!);
    else if (event.key === "Escape" && mention) setMention(undefined);
    else if (event.key === "Escape" && isRunning) tell({ type: "stop" });
    else if (event.key === "Enter" && !event.shiftKey) send();
    else return;
    event.preventDefault();
  };
  return (
    <div class="composer">
      {paths.length > 0 && (
        <ul class="paths" id="paths" role="listbox" aria-label="Files">
          {paths.map((path, n) => (
            <li key={path} role="option" aria-selected={n === chosen} onMouseDown={(event) => (event.preventDefault(), pick(path))}>{path}</li>
          ))}
        </ul>
      )}
      <textarea
        ref={area}
        rows={2}
        dir="auto"
        aria-label="Message"
        aria-controls={paths.length ? "paths" : undefined}
        placeholder="Ask the agent. @ mentions a file"
        value={draft}
        onInput={(event) => (setDraft(event.currentTarget.value), look())}
        onClick={look}
        onKeyDown={press}
        onBlur={() => setMention(undefined)}
      />
      <div class="buttons">
        {isRunning && <button type="button" onClick={() => tell({ type: "stop" })}>Stop</button>}
        <button type="button" class="primary" disabled={!isOnline || !draft.trim()} onClick={send}>Send</button>
      </div>
    </div>
  );
}
