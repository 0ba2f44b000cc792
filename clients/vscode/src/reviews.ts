import type { ActingMode, Answer, CallPart, Conversation, ConversationState, ToolCallFrame } from "@codelab/client";
import * as vscode from "vscode";
import { visibleJson, visibleLine } from "../../web/src/conversation/safe.ts";
import { type Change, changesOf } from "../../web/src/workspace/changes.ts";
import { type Expectations, type View, viewOf } from "../../web/src/workspace/expectations.ts";
import { editedArguments } from "./edit.ts";
import type { Look } from "./model.ts";
import type { Proposals } from "./proposals.ts";
import type { WorkspaceFiles } from "./workspace_files.ts";

/** Calls of which the user may edit the new text of the file; of all others, the arguments. */
const EDITED_AS_TEXT: readonly string[] = ["write_file", "edit_file"];

const NOTHING: Look = { isReady: false, problem: "", isEdited: false };

interface Review {
  readonly call: ToolCallFrame;
  changes: readonly Change[];
  /** What was there when the changes were worked out. */
  view: View;
  look: Look;
  /** Settles when they are. */
  done: Promise<void>;
}

/** What the user of this window sees of the calls that wait, and decides about them. */
export class Reviews implements vscode.Disposable {
  readonly #files: WorkspaceFiles | undefined;
  readonly #expectations: Expectations;
  readonly #proposals: Proposals;
  readonly #reviews = new Map<string, Review>();
  readonly #changed = new vscode.EventEmitter<void>();
  readonly #subscription: vscode.Disposable;
  #conversation: Conversation | undefined;
  /** There is more to show than the conversation's state. */
  readonly onDidChange = this.#changed.event;

  constructor(files: WorkspaceFiles | undefined, expectations: Expectations, proposals: Proposals) {
    this.#files = files;
    this.#expectations = expectations;
    this.#proposals = proposals;
    this.#subscription = proposals.onDidEdit((callId) => this.#edited(callId));
  }

  dispose(): void {
    this.#subscription.dispose();
    this.#changed.dispose();
    for (const callId of this.#reviews.keys()) void this.#proposals.close(callId);
  }

  /** Look at the calls that have begun to wait, and forget those that do not any more. */
  follow(conversation: Conversation, state: ConversationState): void {
    this.#conversation = conversation;
    for (const part of state.approvals) {
      if (this.#reviews.get(part.id)?.call.arguments !== part.call.arguments) this.#begin(part);
    }
    const waiting = new Set(state.approvals.map(({ id }) => id));
    for (const callId of this.#reviews.keys()) if (!waiting.has(callId)) this.#end(callId);
  }

  get looks(): ReadonlyMap<string, Look> {
    return new Map([...this.#reviews].map(([callId, { look }]) => [callId, look]));
  }

  #begin({ id, call }: CallPart): void {
    const review: Review = { call, changes: [], view: new Map(), look: NOTHING, done: Promise.resolve() };
    this.#reviews.set(id, review);
    review.done = this.#lookAt(review);
  }

  #end(callId: string): void {
    this.#reviews.delete(callId);
    void this.#proposals.close(callId);
  }

  /** Work out what a call would change now. From then on it may be executed only against what is there now. */
  async #lookAt(review: Review): Promise<void> {
    const { call_id: callId, tool_name: tool, arguments: args } = review.call;
    if (!args) return; // they are on their way
    if (!this.#files) return this.#looked(review, "");
    let problem = "";
    const before = await viewOf(this.#files, tool, args);
    try {
      review.changes = await changesOf(this.#files, tool, args);
      if (review.changes.length) this.#conversation?.dispatch({ type: "diffed", callId, diff: review.changes });
    } catch (error) {
      review.changes = [];
      problem = visibleLine((error as Error).message);
    }
    review.view = before;
    this.#expectations.shown(callId, before, await viewOf(this.#files, tool, args));
    this.#looked(review, problem);
  }

  #looked(review: Review, problem: string): void {
    review.look = { ...review.look, isReady: true, problem };
    this.#changed.fire();
  }

  #edited(callId: string): void {
    const review = this.#reviews.get(callId);
    const isEdited = this.#proposals.editedText(callId) !== undefined;
    if (!review || review.look.isEdited === isEdited) return;
    review.look = { ...review.look, isEdited };
    this.#changed.fire();
  }

  // -- what the user does --------------------------------------------------------------------------------------

  /** Show what a call would change, or has changed, in the editor. */
  async showChanges(part: CallPart): Promise<void> {
    const review = this.#reviews.get(part.id);
    await review?.done;
    const changes = (review ? review.changes : (part.diff as readonly Change[] | undefined)) ?? [];
    if (!changes.length) await this.#showArguments(part);
    else if (review) await this.#show(review);
    else await this.#proposals.show(part.id, changes, false, part.state);
  }

  async #show({ call, changes }: Review): Promise<void> {
    const canEdit = EDITED_AS_TEXT.includes(call.tool_name);
    await this.#proposals.show(call.call_id, changes, canEdit, canEdit ? "proposed, can be edited" : "proposed");
  }

  /** Open what a call proposes, to be edited. */
  async edit(part: CallPart): Promise<void> {
    const review = this.#reviews.get(part.id);
    await review?.done;
    if (review?.changes.length && EDITED_AS_TEXT.includes(part.call.tool_name)) await this.#show(review);
    else if (review?.call.arguments) await this.#proposals.showArguments(part.id, visibleJson(review.call.arguments));
  }

  async #showArguments({ call }: CallPart): Promise<void> {
    const document = await vscode.workspace.openTextDocument({ language: "json", content: visibleJson(call.arguments ?? {}) });
    await vscode.window.showTextDocument(document);
  }

  /**
   * Approve a call, as the user has edited it if so. If a file was changed since the user saw what the call does to it,
   * nothing is decided: what it does now is shown.
   */
  async approve(callId: string, choice: { remember?: "session" | "user" | undefined; mode?: ActingMode | undefined } = {}): Promise<void> {
    const review = this.#waiting(callId);
    if (!review) return;
    await review.done;
    if (await this.#hasChanged(review)) {
      review.done = this.#lookAt(review);
      await review.done;
      await this.#show(review);
      void vscode.window.showWarningMessage("A file was changed after you had seen what this call does to it. Look at it again: nothing was approved.");
      return;
    }
    const remember = choice.remember && { remember: { scope: choice.remember } };
    const mode = choice.mode && { mode: choice.mode };
    const args = this.#editedArguments(review);
    const answer: Answer = args ? { decision: "edit", arguments: args, ...remember, ...mode } : { decision: "approve", ...remember, ...mode };
    await this.#conversation?.answer(callId, answer);
  }

  async reject(callId: string, feedback: string): Promise<void> {
    const words = feedback.trim();
    if (this.#waiting(callId)) await this.#conversation?.answer(callId, { decision: "reject", ...(words && { feedback: words }) });
  }

  /** The call, if it still waits: another window may have decided. */
  #waiting(callId: string): Review | undefined {
    const review = this.#reviews.get(callId);
    if (review && this.#conversation?.session.openCalls.get(callId)?.requires_approval) return review;
    void vscode.window.showInformationMessage("This call does not wait any more: nothing was decided.");
    return undefined;
  }

  async #hasChanged({ call, view }: Review): Promise<boolean> {
    if (!this.#files || !call.arguments) return false;
    const now = await viewOf(this.#files, call.tool_name, call.arguments);
    return [...now].some(([path, seen]) => view.get(path) !== seen);
  }

  /** The arguments as the user has edited them; undefined: they are the agent's. Throws an Error if they are no JSON. */
  #editedArguments({ call, changes }: Review): Record<string, unknown> | undefined {
    const edited = this.#proposals.editedText(call.call_id);
    if (!edited) return undefined;
    if (!edited.isArguments) return editedArguments(call, changes[0]?.before ?? null, edited.text);
    const args: unknown = JSON.parse(edited.text);
    if (typeof args !== "object" || args === null || Array.isArray(args)) throw new Error("The arguments must be a JSON object");
    return args as Record<string, unknown>;
  }
}
