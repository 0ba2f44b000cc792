/** What the view shows, as plain data: made from the conversation's state in the extension, and drawn in the webview. */

import type { Answer, CallState, ConversationState } from "@codelab/client";
import type { Image } from "./images.ts";

export interface UserItem {
  kind: "user";
  id: string;
  text: string;
  state: "sending" | "sent" | "refused";
  attachments: number;
}

export interface TextItem {
  kind: "text" | "thought";
  id: string;
  text: string;
  isFinal: boolean;
}

export interface PlanItem {
  kind: "plan";
  id: string;
  steps: readonly { text: string; status: string }[];
}

/** Something that happened beside what the agent says and does. */
export interface NoteItem {
  kind: "note";
  id: string;
  text: string;
  isProblem: boolean;
}

export interface CallItem {
  kind: "call";
  id: string;
  tool: string;
  /** What it is about, in one line: a path, a command. */
  subject: string;
  state: CallState;
  /** It cannot be decided about: not yet, or not any more. */
  isDeciding: boolean;
  /** What it would change, or has changed. */
  changes: readonly ShownChange[];
  /** Why it is not known what it would change. */
  problem: string;
  /** Its arguments, without those that the changes show; every hidden character is spelled out. */
  args: string;
  /** Whether there is more of them than is shown. */
  isCut: boolean;
  /** Whether the user has edited what it proposes, in the editor. */
  isEdited: boolean;
  /** The steps of a plan that waits, or was decided about. */
  plan: { steps: readonly string[]; explanation: string } | undefined;
  remember: { rule: string; scopes: readonly ("session" | "user")[] } | undefined;
  output: string;
  result: string;
  /** Those of the result, which are left out of its text. */
  images: readonly Image[];
  decision: "" | Answer["decision"];
  feedback: string;
}

/** A file's change, as lines of a difference in which nothing is invisible. */
export interface ShownChange {
  path: string;
  kind: "new" | "changed" | "deleted" | "same";
  added: number;
  removed: number;
  lines: readonly string[];
  notes: readonly string[];
}

export type Item = UserItem | TextItem | PlanItem | NoteItem | CallItem;

/** What the extension knows of a call that waits, beside the conversation's state. */
export interface Look {
  /** Whether it is known what the call would change: nobody decides before. */
  readonly isReady: boolean;
  readonly problem: string;
  readonly isEdited: boolean;
}

/** The view beside its items. */
export interface Surroundings {
  connection: ConversationState["connection"]["state"];
  /** Why it is not online, or what is missing for the agent to work in this workspace. */
  trouble: string;
  needsToken: boolean;
  status: ConversationState["status"];
  title: string;
  mode: string;
  actingMode: string;
  model: string;
  models: readonly string[];
  agent: string;
  plan: readonly { text: string; status: string }[];
  queue: readonly { id: string; text: string; isWhole: boolean }[];
  usage: string;
  hasEarlier: boolean;
  /** Why the agent has no tools here; empty if it has. */
  restriction: string;
}

export interface View {
  readonly items: readonly Item[];
  readonly around: Surroundings;
}

/** What differs between two views: the items in their order, if that has changed, and those that are new. */
export interface Delta {
  order?: readonly string[];
  items: readonly Item[];
  around?: Surroundings;
}

/** What to tell a view that shows `before` (undefined: nothing) to show `after`; undefined if that is the same. */
export function deltaOf(before: View | undefined, after: View): Delta | undefined {
  const known = new Set(before?.items);
  const items = after.items.filter((item) => !known.has(item));
  const isInOrder = before?.items.length === after.items.length && after.items.every(({ id }, n) => before.items[n]?.id === id);
  const isSame = before !== undefined && JSON.stringify(before.around) === JSON.stringify(after.around);
  if (isInOrder && isSame && !items.length) return undefined;
  return {
    items,
    ...(!isInOrder && { order: after.items.map(({ id }) => id) }),
    ...(!isSame && { around: after.around }),
  };
}

/** The view after such a difference. Items that are not in it stay the same objects. */
export function applied(view: View, { order, items, around }: Delta): View {
  const byId = new Map([...view.items, ...items].map((item) => [item.id, item]));
  const ids = order ?? view.items.map(({ id }) => id);
  return { items: ids.flatMap((id) => byId.get(id) ?? []), around: around ?? view.around };
}
