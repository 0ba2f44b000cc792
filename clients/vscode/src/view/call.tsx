import type { ActingMode } from "@codelab/client";
import { memo } from "preact/compat";
import { useState } from "preact/hooks";
import type { CallItem, ShownChange } from "../model.ts";
import { MODES } from "../modes.ts";
import { tell } from "./host.ts";
import { Markdown } from "./markdown.tsx";

const STATES: Record<CallItem["state"], string> = {
  asking: "wants your approval",
  approved: "starting",
  running: "running",
  elsewhere: "runs in another client",
  completed: "done",
  failed: "failed",
  rejected: "rejected",
  expired: "expired",
  cancelled: "cancelled",
};
const EDITABLE = "write_file edit_file".split(" ");
const ACTING: readonly string[] = ["manual", "code", "autonomous"] satisfies ActingMode[];

/** A call: what it does, what became of it and, while it waits, the decision. */
export const Call = memo(function Call({ item, actingMode }: { item: CallItem; actingMode: string }) {
  const { tool, subject, state, changes, args, plan, output, result, images, decision, feedback } = item;
  const isAsking = state === "asking";
  const isSettled = !isAsking && state !== "approved" && state !== "running";
  return (
    <article class={`call ${state}`} aria-label={`${tool} ${subject}`}>
      <header>
        <code>{plan ? "plan" : tool}</code>
        <span class="subject" title={subject}>{subject}</span>
        <span class="state">{plan && state === "completed" ? "accepted" : STATES[state]}</span>
      </header>
      {item.problem && isAsking && <p class="problem">{item.problem}</p>}
      {changes.map((change) => <Change key={change.path} change={change} isOpen={isAsking} />)}
      {changes.length > 0 && <p><button type="button" class="link" onClick={() => tell({ type: "diff", id: item.id })}>Compare in the editor</button></p>}
      {plan && <Plan plan={plan} isOpen={isAsking} />}
      {args && (isAsking ? <pre class="arguments" tabIndex={0}>{args}</pre> : <Folded title="Arguments" text={args} />)}
      {item.isCut && <p class="note">This is not all of it: <button type="button" class="link" onClick={() => tell({ type: "diff", id: item.id })}>open it in the editor</button></p>}
      {isAsking && <Decision item={item} actingMode={actingMode} />}
      {decision === "edit" && isSettled && <p class="note">You changed the call before it ran.</p>}
      {feedback && <p class="note">You said: {feedback}</p>}
      {output && <pre class="output" tabIndex={0}>{output}</pre>}
      {images.map(({ media_type, data }, n) => <img key={n} src={`data:${media_type};base64,${data}`} alt={`Image ${n + 1} of the result`} />)}
      {result && isSettled && !plan && result !== output && <Folded title="Result" text={result} />}
    </article>
  );
});

function Folded({ title, text }: { title: string; text: string }) {
  return (
    <details>
      <summary>{title}</summary>
      <pre tabIndex={0}>{text}</pre>
    </details>
  );
}

const KINDS: Record<ShownChange["kind"], string> = { new: "new file", changed: "", deleted: "deleted", same: "no change: the file already has this content" };

function Change({ change: { path, kind, added, removed, lines, notes }, isOpen }: { change: ShownChange; isOpen: boolean }) {
  return (
    <details class="change" open={isOpen}>
      <summary>
        <button type="button" class="link" onClick={(event) => (event.preventDefault(), tell({ type: "open", path }))}>{path}</button>{" "}
        <span class="added">+{added}</span> <span class="removed">−{removed}</span> {KINDS[kind]}
      </summary>
      {notes.map((text) => <p key={text} class="note">{text}</p>)}
      <pre class="lines" tabIndex={0}>
        {lines.map((line, n) => <span key={n} class={line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : ""}>{`${line}\n`}</span>)}
      </pre>
    </details>
  );
}

function Plan({ plan: { steps, explanation }, isOpen }: { plan: NonNullable<CallItem["plan"]>; isOpen: boolean }) {
  return (
    <details open={isOpen}>
      <summary>{steps.length} steps</summary>
      <Markdown text={explanation} />
      <ol>{steps.map((step, n) => <li key={n}>{step}</li>)}</ol>
    </details>
  );
}

function Decision({ item: { id, tool, isDeciding, isEdited, plan, remember, changes, args }, actingMode }: { item: CallItem; actingMode: string }) {
  const [feedback, setFeedback] = useState<string | undefined>(undefined);
  const [mode, setMode] = useState<string | undefined>(undefined);
  const canEdit = changes.length ? EDITABLE.includes(tool) : args !== "";
  const approve = (scope?: "session" | "user") =>
    tell({ type: "approve", id, ...(scope && { remember: scope }), ...(plan && { mode: (mode ?? actingMode) as ActingMode }) });
  if (feedback !== undefined) {
    return (
      <div class="buttons">
        <input
          autoFocus
          aria-label="What should the agent do instead?"
          placeholder="What should the agent do instead? (optional)"
          value={feedback}
          onInput={(event) => setFeedback(event.currentTarget.value)}
          onKeyDown={(event) => event.key === "Enter" && !event.isComposing && tell({ type: "reject", id, feedback })}
        />
        <button type="button" onClick={() => tell({ type: "reject", id, feedback })}>Reject</button>
        <button type="button" class="quiet" onClick={() => setFeedback(undefined)}>Cancel</button>
      </div>
    );
  }
  return (
    <div class="buttons">
      {plan && (
        <select aria-label="Carry it out in this mode" value={mode ?? actingMode} onChange={(event) => setMode(event.currentTarget.value)}>
          {MODES.filter((one) => ACTING.includes(one.mode)).map((one) => <option key={one.mode} value={one.mode}>{one.text}</option>)}
        </select>
      )}
      <button type="button" class="primary" disabled={isDeciding} onClick={() => approve()}>
        {plan ? "Accept the plan" : isEdited ? "Approve as edited" : "Approve"}
      </button>
      {canEdit && <button type="button" disabled={isDeciding} onClick={() => tell({ type: "edit", id })}>Edit</button>}
      <button type="button" disabled={isDeciding} onClick={() => setFeedback("")}>Reject</button>
      {remember && !isEdited && <Always remember={remember} isDeciding={isDeciding} onChoice={approve} />}
    </div>
  );
}

const SCOPES = { session: "in this conversation", user: "in all my conversations" };

function Always({ remember: { rule, scopes }, isDeciding, onChoice }: { remember: NonNullable<CallItem["remember"]>; isDeciding: boolean; onChoice(scope: "session" | "user"): void }) {
  return (
    <details class="always">
      <summary>Always…</summary>
      <p>Rule: <code>{rule}</code></p>
      {scopes.map((scope) => <button key={scope} type="button" disabled={isDeciding} onClick={() => onChoice(scope)}>Always {SCOPES[scope]}</button>)}
    </details>
  );
}
