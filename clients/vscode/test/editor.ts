/** An editor with the extension in it, and its user. */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { CallPart } from "@codelab/client";
import type { ExtensionContext } from "vscode";
import type { Agent } from "../src/agent.ts";
import { activate } from "../src/desktop.ts";
import type { FromView, ToView } from "../src/messages.ts";
import { applied, type CallItem, type Item, type View } from "../src/model.ts";
import * as fake from "./fake_vscode.ts";

export const SERVER = process.env["CODELAB_URL"] ?? "";

export async function until<T>(condition: () => T | Promise<T>, why = "it was not so in time"): Promise<NonNullable<T>> {
  for (let tries = 0; tries < 3_000; tries++) {
    const value = await condition();
    if (value) return value;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(why);
}

/** Values that a workspace or the editor keeps. */
export function memento(values: Record<string, unknown> = {}) {
  return {
    values,
    get: (key: string) => values[key],
    update: async (key: string, value: unknown) => void (values[key] = value),
    store: async (key: string, value: unknown) => void (values[key] = value),
    delete: async (key: string) => void delete values[key],
  };
}

export class Editor {
  readonly folder: string;
  readonly agent: Agent;
  readonly secrets = memento();
  readonly workspaceState: ReturnType<typeof memento>;
  html = "";
  view: View | undefined;
  suggested: readonly string[] = [];
  inserted: string[] = [];
  #send: (message: FromView) => void = () => {};
  readonly #subscriptions: { dispose(): unknown }[] = [];

  /** Open a folder of its own, with the view of the conversation. */
  static async open(state = memento()): Promise<Editor> {
    const folder = await mkdtemp(join(tmpdir(), "codelab-vscode-"));
    fake.workspace.workspaceFolders = [{ uri: fake.Uri.file(folder), name: "folder", index: 0 }];
    fake.workspace.settings = { url: SERVER };
    fake.workspace.textDocuments.length = fake.user.tabs.length = fake.user.messages.length = 0;
    return new Editor(folder, state);
  }

  private constructor(folder: string, state: ReturnType<typeof memento>) {
    this.folder = folder;
    this.workspaceState = state;
    this.agent = activate({
      subscriptions: this.#subscriptions,
      secrets: this.secrets,
      workspaceState: state,
      extensionUri: fake.Uri.file("/extension"),
      extension: { packageJSON: { version: "0.0.0" } },
    } as unknown as ExtensionContext).agent;
    this.showView();
  }

  showView(): void {
    const take = (message: ToView) => {
      if (message.type === "paths") this.suggested = message.paths;
      if (message.type === "insert") this.inserted.push(message.text);
      if (message.type !== "delta") return;
      if (message.isWhole) this.view = undefined;
      const copy = structuredClone(message.delta); // as the editor passes it on
      this.view = applied(this.view ?? { items: [], around: copy.around! }, copy);
    };
    const page = this;
    fake.views.get("codelab.conversation")!.resolveWebviewView({
      onDidDispose: () => {},
      webview: {
        options: {},
        cspSource: "https://extension.test",
        asWebviewUri: (uri: fake.Uri) => `https://extension.test${uri.path}`,
        onDidReceiveMessage: (listener: (message: unknown) => void) => (this.#send = listener),
        postMessage: async (message: ToView) => take(message),
        set html(text: string) {
          page.html = text;
        },
      },
    });
    this.send({ type: "ready" });
  }

  /** As the view does. */
  send(message: FromView): void {
    this.#send(message);
  }

  async ask(text: string): Promise<void> {
    await until(() => this.view?.around.connection === "online", "it does not get online");
    this.send({ type: "prompt", text });
  }

  get items(): readonly Item[] {
    return this.view?.items ?? [];
  }

  /** The newest call, as soon as it is so. */
  call(state: CallPart["state"]): Promise<CallItem> {
    const newest = () => this.items.findLast((item): item is CallItem => item.kind === "call");
    return until(() => (newest()?.state === state ? newest() : undefined), `no call is ${state}`);
  }

  /** A call that waits, when it is known what it would change. */
  asking(): Promise<CallItem> {
    return until(() => this.items.findLast((item): item is CallItem => item.kind === "call" && item.state === "asking" && !item.isDeciding));
  }

  /** The turn has ended. */
  async idle(): Promise<void> {
    await until(() => this.agent.state.turns.length && this.agent.state.turns.every(({ end }) => end) && this.agent.state.status === "idle", "it does not end");
  }

  async close(): Promise<void> {
    for (const one of this.#subscriptions.splice(0)) await one.dispose();
    await rm(this.folder, { recursive: true });
  }
}
