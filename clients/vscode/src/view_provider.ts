import type { CallPart } from "@codelab/client";
import * as vscode from "vscode";
import type { Agent } from "./agent.ts";
import { Items } from "./items.ts";
import type { Mentions } from "./mentions.ts";
import { type FromView, readMessage, type ToView } from "./messages.ts";
import { deltaOf, type View } from "./model.ts";
import { surroundings } from "./surroundings.ts";
import { WorkspaceFiles } from "./workspace_files.ts";

export const VIEW = "codelab.conversation";
/** The view is told what is new at most so often, in milliseconds. */
const TOLD_MS = 50;
const COMMANDS: Record<Extract<FromView, { type: "command" }>["command"], [command: string, argument?: string]> = {
  new: ["codelab.new"],
  sessions: ["codelab.sessions"],
  token: ["codelab.token"],
  reconnect: ["codelab.reconnect"],
  settings: ["workbench.action.openSettings", "codelab"],
};

/** The conversation in the side bar. */
export class ViewProvider implements vscode.WebviewViewProvider, vscode.Disposable {
  readonly #agent: Agent;
  readonly #mentions: Mentions;
  readonly #folder: vscode.Uri;
  readonly #items = new Items();
  readonly #subscription: vscode.Disposable;
  #view: vscode.WebviewView | undefined;
  #shown: View | undefined;
  /** The webview listens. */
  #isReady = false;
  #inserts: string[] = [];
  #telling: ReturnType<typeof setTimeout> | undefined;

  /** `folder` is the extension's. */
  constructor(agent: Agent, mentions: Mentions, folder: vscode.Uri) {
    this.#agent = agent;
    this.#mentions = mentions;
    this.#folder = folder;
    this.#subscription = agent.onDidChange(() => (this.#telling ??= setTimeout(() => this.#tell(), TOLD_MS)));
  }

  dispose(): void {
    clearTimeout(this.#telling);
    this.#subscription.dispose();
  }

  resolveWebviewView(view: vscode.WebviewView): void {
    this.#view = view;
    this.#isReady = false;
    view.webview.options = { enableScripts: true, enableForms: false, localResourceRoots: [this.#at("dist"), this.#at("media")] };
    view.webview.onDidReceiveMessage((message) => this.#take(readMessage(message)));
    view.onDidDispose(() => {
      if (this.#view === view) this.#view = undefined;
    });
    view.webview.html = this.#html(view.webview);
  }

  /** Put a text into the message that is being written. */
  async insert(text: string): Promise<void> {
    this.#inserts.push(text);
    await vscode.commands.executeCommand(`${VIEW}.focus`);
    this.#insertAll();
  }

  #insertAll(): void {
    if (!this.#isReady) return;
    for (const text of this.#inserts.splice(0)) this.#post({ type: "insert", text });
  }

  #tell(): void {
    this.#telling = undefined;
    if (!this.#view || !this.#isReady) return;
    const { state, reviews, needsToken, restriction } = this.#agent;
    const items = this.#items.of(state, reviews?.looks ?? new Map());
    const view: View = { items, around: surroundings(state, needsToken, restriction) };
    const delta = deltaOf(this.#shown, view);
    if (delta) this.#post({ type: "delta", delta, isWhole: this.#shown === undefined });
    this.#shown = view;
    this.#view.badge = state.approvals.length ? { value: state.approvals.length, tooltip: "Calls that wait for you" } : undefined;
  }

  #post(message: ToView): void {
    void this.#view?.webview.postMessage(message);
  }

  #take(message: FromView | undefined): void {
    if (!message) return;
    this.#act(message).catch((error: unknown) => {
      void vscode.window.showErrorMessage(error instanceof Error ? error.message : String(error));
    });
  }

  async #act(message: FromView): Promise<void> {
    const { conversation, reviews } = this.#agent;
    switch (message.type) {
      case "ready":
        this.#isReady = true;
        this.#shown = undefined;
        this.#tell();
        this.#insertAll();
        return conversation ? undefined : this.#agent.resume();
      case "prompt":
        return this.#prompt(message.text).catch((error: unknown) => {
          this.#post({ type: "insert", text: message.text }); // the view has emptied its field
          throw error;
        });
      case "stop":
        return conversation?.cancel();
      case "earlier":
        return conversation?.history();
      case "withdraw":
        return conversation?.withdraw(message.id);
      case "approve":
        return reviews?.approve(message.id, message);
      case "reject":
        return reviews?.reject(message.id, message.feedback);
      case "diff":
      case "edit": {
        const part = this.#call(message.id);
        return part && (message.type === "diff" ? reviews?.showChanges(part) : reviews?.edit(part));
      }
      case "open":
        return open(message.path);
      case "paths":
        return this.#post({ type: "paths", text: message.text, paths: await this.#mentions.matching(message.text) });
      case "mode":
        return void (await conversation?.session.configure({ mode: message.mode as "code" }));
      case "model":
        return void (await conversation?.session.configure({ model: message.model }));
      case "command": {
        const [command, ...rest] = Object.hasOwn(COMMANDS, message.command) ? COMMANDS[message.command] : [];
        if (command) await vscode.commands.executeCommand(command, ...rest);
      }
    }
  }

  /** A command about notes is done here, as the terminal does it. Any other text is a message. */
  async #prompt(text: string): Promise<void> {
    const [, name, note = ""] = /^\/(remember|notes)(?:\s+([^]*))?$/.exec(text.trim()) ?? [];
    if (name) await vscode.commands.executeCommand(`codelab.${name}`, note);
    else await this.#agent.prompt(text);
  }

  #call(id: string): CallPart | undefined {
    for (const message of this.#agent.state.messages) {
      const part = message.role === "assistant" && message.parts.find((one): one is CallPart => one.type === "call" && one.id === id);
      if (part) return part;
    }
    return undefined;
  }

  #at(name: string): vscode.Uri {
    return vscode.Uri.joinPath(this.#folder, name);
  }

  /** The page loads nothing but the extension's own script and style, and connects to nothing; images are in what it is told. */
  #html(webview: vscode.Webview): string {
    const nonce = [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    const [script, style] = [this.#at("dist/view.js"), this.#at("media/view.css")].map((uri) => webview.asWebviewUri(uri));
    const policy = `default-src 'none'; style-src ${webview.cspSource}; script-src 'nonce-${nonce}'; img-src data:`;
    return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<title>CodeLab</title>
<link rel="stylesheet" href="${style}">
<div id="app"></div>
<script nonce="${nonce}" src="${script}"></script>
</html>`;
  }
}

/** Open a file of the workspace that a call names. */
async function open(path: string): Promise<void> {
  const [folder] = vscode.workspace.workspaceFolders ?? [];
  if (folder) await vscode.window.showTextDocument(await new WorkspaceFiles(folder.uri).uriOf(path));
}
