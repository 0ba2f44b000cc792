import type { ToolCallFrame } from "@codelab/client";
import * as vscode from "vscode";
import { visible, visibleLine } from "../../web/src/conversation/safe.ts";
import type { Change } from "../../web/src/workspace/changes.ts";
import type { Dialogue } from "../../web/src/workspace/file_tools.ts";
import type { FilePatch } from "../../web/src/workspace/patches.ts";
import { argumentsText } from "./items.ts";
import type { Proposals } from "./proposals.ts";

/** Characters of a call that a question shows; the document that is opened shows all. */
const SHOWN_CHARS = 2_000;
const RUN = "Run It";

/** What the agent's tools ask the user. */
export class Questions implements Dialogue {
  readonly #proposals: Proposals;
  readonly #memory: vscode.Memento;

  /** `memory` keeps what counts for this workspace. */
  constructor(proposals: Proposals, memory: vscode.Memento) {
    this.#proposals = proposals;
    this.#memory = memory;
  }

  choose(message: string, actions: readonly string[], signal: AbortSignal): Promise<string | undefined> {
    const items = actions.map((action) => ({ label: visibleLine(action), action }));
    const options = { title: "The agent asks", placeHolder: visibleLine(message), ignoreFocusOut: true };
    return picked(async (token) => (await vscode.window.showQuickPick(items, options, token))?.action, signal);
  }

  async review(message: string, files: readonly FilePatch[], signal: AbortSignal): Promise<ReadonlySet<number> | undefined> {
    const text = files.flatMap((file) => [...file.header, ...file.hunks.flatMap((hunk) => hunk.raw)]).join("\n");
    await vscode.window.showTextDocument(await vscode.workspace.openTextDocument({ language: "diff", content: visible(text) }));
    const hunks = files.flatMap((file) => file.hunks.map((hunk) => ({ path: file.to ?? file.from ?? "", place: hunk.raw[0] ?? "" })));
    const items = hunks.map(({ path, place }, n) => ({ label: `${n + 1}: ${visibleLine(path)}`, description: visibleLine(place), picked: true, number: n + 1 }));
    const options = { title: visibleLine(message) || "Which parts shall be applied?", canPickMany: true, ignoreFocusOut: true } as const;
    const chosen = await picked((token) => Promise.resolve(vscode.window.showQuickPick(items, options, token)), signal);
    return chosen && new Set(chosen.map(({ number }) => number));
  }

  async confirm(why: string, changes: readonly Change[], signal: AbortSignal): Promise<boolean | undefined> {
    const id = `confirm-${Date.now()}`;
    await this.#proposals.show(id, changes, false, "would be written now");
    try {
      const detail = "You approved it for what the file had before. The comparison shows what would be written now.";
      const chosen = await vscode.window.showWarningMessage(`${visibleLine(why)}.`, { modal: true, detail }, "Write It");
      signal.throwIfAborted();
      return chosen !== undefined;
    } finally {
      await this.#proposals.close(id);
    }
  }

  /** Whether a call runs that was approved elsewhere, or by nobody. "Always" counts for this server and workspace. */
  async runsHere(server: string, call: ToolCallFrame, changes: readonly Change[]): Promise<boolean> {
    const key = `elsewhere ${server}`;
    if (this.#memory.get<boolean>(key)) return true;
    const text = argumentsText((call.arguments ?? {}) as Record<string, unknown>);
    if (changes.length) await this.#proposals.show(call.call_id, changes, false, "approved elsewhere");
    else if (text.length > SHOWN_CHARS) await vscode.window.showTextDocument(await vscode.workspace.openTextDocument({ content: text }));
    const shown = changes.length || text.length > SHOWN_CHARS ? "The editor shows what it does." : text;
    const detail = `${server} says that it was approved, but not in this window: somewhere else, or by nobody.\n\n${shown}`;
    const always = "Always for This Server";
    const chosen = await vscode.window.showWarningMessage(`Run ${visibleLine(call.tool_name)}?`, { modal: true, detail }, RUN, always);
    if (chosen === always) await this.#memory.update(key, true);
    if (changes.length) await this.#proposals.close(call.call_id);
    return chosen !== undefined;
  }
}

/** What the user picks, unless the question is not wanted any more. */
async function picked<Value>(pick: (token: vscode.CancellationToken) => Promise<Value>, signal: AbortSignal): Promise<Value> {
  const source = new vscode.CancellationTokenSource();
  signal.addEventListener("abort", () => source.cancel());
  try {
    const value = await pick(source.token);
    signal.throwIfAborted();
    return value;
  } finally {
    source.dispose();
  }
}
