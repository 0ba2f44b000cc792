/** The items that the view shows, from the conversation's state. */

import type { CallPart, ConversationState, Message, Part, TurnState } from "@codelab/client";
import { visible, visibleJson, visibleLine } from "../../web/src/conversation/safe.ts";
import { difference } from "../../web/src/review/difference.ts";
import type { Change } from "../../web/src/workspace/changes.ts";
import { type Image, imagesOf } from "./images.ts";
import type { CallItem, Item, Look, NoteItem, ShownChange, UserItem } from "./model.ts";

/** Characters of arguments, results and outputs that the view shows. */
const SHOWN_CHARS = 20_000;
/** Lines of a difference that the view shows; the editor shows all. */
const SHOWN_LINES = 300;

type Made = Map<string, { source: Message | Part; look: Look | undefined; item: Item }>;

/** Makes items of a conversation's messages; an item that would be the same is the same object as before. */
export class Items {
  #made: Made = new Map();

  of(state: ConversationState, looks: ReadonlyMap<string, Look>): Item[] {
    const before = this.#made;
    this.#made = new Map();
    const ends = endsOf(state);
    return state.messages.flatMap((message): Item[] => {
      const sources = message.role === "user" ? [message] : message.parts;
      const items = sources.flatMap((source) => this.#item(before, source, looks));
      const end = ends.get(message.id);
      return end ? [...items, end] : items;
    });
  }

  #item(before: Made, source: Message | Part, looks: ReadonlyMap<string, Look>): Item[] {
    const look = looks.get(source.id);
    const known = before.get(source.id);
    const isKnown = known?.source === source && known.look === look;
    const item = isKnown ? known.item : itemOf(source, look);
    if (!item) return [];
    this.#made.set(source.id, { source, look, item });
    return [item];
  }
}

function itemOf(source: Message | Part, look: Look | undefined): Item | undefined {
  if ("role" in source) return source.role === "user" ? userItem(source) : undefined;
  const { id } = source;
  switch (source.type) {
    case "text":
      return { kind: "text", id, text: source.text, isFinal: source.isFinal };
    case "thought":
      return { kind: "thought", id, text: source.text, isFinal: true };
    case "plan":
      return { kind: "plan", id, steps: source.items.map(({ text, status }) => ({ text, status })) };
    case "call":
      return callItem(source, look);
    case "subagent":
      return note(id, `${visibleLine(source.agent)} (${source.state}): ${visibleLine(source.task)}`, source.state === "failed");
    case "draft": {
      const { tool_name: tool, path, lines } = source.draft;
      return note(id, `Writing ${visibleLine(path ?? tool ?? "a call")}: ${lines} ${lines === 1 ? "line" : "lines"}`);
    }
    case "switch":
      return note(id, `${visibleLine(source.to)} answers from here on.`);
    case "error":
      return note(id, visible(source.message), true);
    case "compacted":
      return note(id, `The history was shortened for the model (${source.outcome}).`);
  }
}

const note = (id: string, text: string, isProblem = false): NoteItem => ({ kind: "note", id, text, isProblem });

function userItem({ id, text, state, attachments }: Extract<Message, { role: "user" }>): UserItem {
  return { kind: "user", id, text, state, attachments: attachments.length };
}

/** How turns ended that did not just complete, by the message that is their last. */
function endsOf({ messages, turns }: ConversationState): Map<string, NoteItem> {
  const last = new Map(messages.filter(({ turnId }) => turnId).map(({ id, turnId }) => [turnId, id]));
  const ends = turns.flatMap((turn) => {
    const text = endOf(turn);
    const at = last.get(turn.id);
    return text && at !== undefined ? [[at, note(`end-${turn.id}`, text)] as const] : [];
  });
  return new Map(ends);
}

const ENDS: Partial<Record<NonNullable<TurnState["end"]>["reason"], string>> = {
  cancelled: "You stopped the answer.",
  refused: "The model declined to answer.",
  max_steps: "The agent has used all of its steps. Write to it to go on.",
  budget: "The quota of today is used up.",
};

function endOf({ end }: TurnState): string {
  return (end && ENDS[end.reason]) ?? "";
}

function callItem(part: CallPart, look: Look | undefined): CallItem {
  const { id, call, state, diff = [], output, decision, feedback, isDeciding = false } = part;
  const isReady = state !== "asking" || look?.isReady === true;
  const args = (call.arguments ?? {}) as Record<string, unknown>;
  const plan = planOf(call.tool_name, args);
  const changes = diff.map(shownChange);
  const images = imagesOf(part.outcome?.result);
  const text = argumentsText(args, plan ? ["steps", "explanation"] : changes.length ? ["path", "content", "edits", "diff"] : []);
  return {
    kind: "call",
    id,
    tool: visibleLine(call.tool_name),
    subject: plan ? `${plan.steps.length} steps` : subjectOf(args),
    state,
    isDeciding: isDeciding || !isReady,
    changes,
    problem: look?.problem ?? "",
    args: text.slice(0, SHOWN_CHARS),
    isCut: text.length > SHOWN_CHARS || changes.some(({ lines }) => lines.length === SHOWN_LINES),
    isEdited: look?.isEdited ?? false,
    plan,
    remember: call.remember ? { rule: visible(call.remember.rule), scopes: call.remember.scopes } : undefined,
    output: visible(output),
    result: visible(resultText(part, images)).slice(0, SHOWN_CHARS),
    images,
    decision: decision ?? "",
    feedback: visible(feedback ?? ""),
  };
}

/** The plan that a call proposes; undefined for any other call. */
function planOf(tool: string, args: Record<string, unknown>): CallItem["plan"] {
  const { steps, explanation } = args;
  if (tool !== "propose_plan" || !Array.isArray(steps)) return undefined;
  return { steps: steps.map((step) => visible(String(step))), explanation: typeof explanation === "string" ? explanation : "" };
}

/** A command and other short texts as they are, everything else as JSON. */
export function argumentsText(args: Record<string, unknown>, but: readonly string[] = []): string {
  const shown = Object.entries(args).filter(([name, value]) => value != null && !but.includes(name));
  const [first] = shown;
  if (shown.length === 1 && first?.[0] === "command" && typeof first[1] === "string") return visible(first[1]);
  return shown.length ? visibleJson(Object.fromEntries(shown)) : "";
}

function subjectOf(args: Record<string, unknown>): string {
  const { path, command, query, from, to, url, glob } = args;
  const text = [path, command, query, from, url, glob].find((value): value is string => typeof value === "string") ?? "";
  const subject = typeof to === "string" ? `${text} → ${to}` : text;
  return visibleLine(subject).slice(0, 300);
}

function resultText({ outcome, shown = "" }: CallPart, images: readonly Image[]): string {
  if (!outcome) return shown;
  if (outcome.error) return typeof outcome.error === "string" ? outcome.error : (outcome.error.message ?? JSON.stringify(outcome.error));
  const { result } = outcome;
  if (typeof result === "object" && result !== null) {
    const { content, diff, stdout, stderr } = result as Record<string, unknown>;
    if (typeof content === "string") return content;
    if (typeof diff === "string") return diff;
    if (typeof stdout === "string") return stdout + (typeof stderr === "string" ? stderr : "");
    if (images.length) return JSON.stringify({ ...result, images: images.map(({ media_type }) => media_type) }, null, 2);
  }
  return JSON.stringify(result, null, 2) ?? "";
}

const NOTES: Record<string, string> = {
  "diff.ends": "Line ends change: {from} → {to}",
  "diff.newends": "Line ends: {to}",
  "diff.nonewline": "No newline at the end of the file any more",
  "diff.newline": "A newline at the end of the file now",
  "diff.alike": "Lines that look alike differ: characters other than plain ASCII are spelled out in them",
  "diff.uncompared": "Too large to compare: all of the present text is replaced",
};

export function shownChange(change: Change): ShownChange {
  const { before, after } = change;
  const { lines, notes } = difference(change);
  const count = (sign: string) => lines.filter((line) => line.startsWith(sign)).length;
  return {
    path: visibleLine(change.path),
    kind: before === null ? "new" : after === null ? "deleted" : before === after ? "same" : "changed",
    added: count("+"),
    removed: count("-"),
    lines: lines.slice(0, SHOWN_LINES),
    notes: notes.map(([key, values = {}]) => (NOTES[key] ?? key).replace(/\{(\w+)\}/g, (_, name: string) => values[name] ?? "")),
  };
}
