import * as vscode from "vscode";
import { visibleLine } from "../../web/src/conversation/safe.ts";
import type { Change } from "../../web/src/workspace/changes.ts";

/** The scheme of the documents: `/CALL/NUMBER/SIDE/PATH`. */
export const SCHEME = "codelab-proposal";

type Side = "before" | "after" | "arguments";

interface Text {
  text: string;
  /** The text as it was proposed; undefined: it is only for reading. */
  proposed: string | undefined;
  changedAt: number;
}

/**
 * What calls propose, as documents of the editor: its own comparison shows them beside what is there, and the user may
 * edit them. They are in memory only, and nothing here writes a file.
 */
export class Proposals implements vscode.FileSystemProvider, vscode.Disposable {
  readonly #texts = new Map<string, Text>();
  readonly #changed = new vscode.EventEmitter<vscode.FileChangeEvent[]>();
  readonly #edited = new vscode.EventEmitter<string>();
  readonly #subscriptions: vscode.Disposable[];
  readonly onDidChangeFile = this.#changed.event;
  /** The user edits what a call proposes. */
  readonly onDidEdit = this.#edited.event;

  constructor() {
    this.#subscriptions = [
      this.#changed,
      this.#edited,
      vscode.workspace.registerFileSystemProvider(SCHEME, this, { isCaseSensitive: true }),
      vscode.workspace.onDidChangeTextDocument(({ document }) => {
        const callId = callOf(document.uri);
        if (callId !== undefined) this.#edited.fire(callId);
      }),
    ];
  }

  dispose(): void {
    for (const subscription of this.#subscriptions) subscription.dispose();
  }

  /**
   * Show changes beside what is there. `canEdit`: whether the user may edit the first one. What the user has edited stays,
   * unless the call proposes another text now.
   */
  async show(callId: string, changes: readonly Change[], canEdit: boolean, title: string): Promise<void> {
    const first = changes[0];
    const known = first && this.#texts.get(uriOf(callId, 0, "after", first.path).toString());
    if (known && known.proposed !== (canEdit ? (first.after ?? "") : undefined)) await this.close(callId);
    for (const [n, change] of changes.entries()) {
      const [before, after] = (["before", "after"] as const).map((side) => uriOf(callId, n, side, change.path)) as [vscode.Uri, vscode.Uri];
      this.#put(before, change.before ?? "", undefined);
      this.#put(after, change.after ?? "", canEdit && n === 0 ? (change.after ?? "") : undefined);
      await vscode.commands.executeCommand("vscode.diff", before, after, `${visibleLine(change.path)} (${title})`, { preview: false });
    }
  }

  /** Open a call's arguments, to be edited. */
  async showArguments(callId: string, json: string): Promise<void> {
    const uri = uriOf(callId, 0, "arguments", "arguments.json");
    this.#put(uri, json, json);
    await vscode.window.showTextDocument(uri, { preview: false });
  }

  /** The text that the user has made of what a call proposes; undefined if it is what was proposed. */
  editedText(callId: string): { text: string; isArguments: boolean } | undefined {
    for (const [key, { text, proposed }] of this.#texts) {
      const uri = vscode.Uri.parse(key, true);
      if (callOf(uri) !== callId || proposed === undefined) continue;
      const document = vscode.workspace.textDocuments.find((one) => one.uri.toString() === key);
      const now = document?.getText() ?? text;
      if (plain(now) !== plain(proposed)) return { text: now, isArguments: sideOf(uri) === "arguments" };
    }
    return undefined;
  }

  /** Close the documents of a call. */
  async close(callId: string): Promise<void> {
    for (const document of vscode.workspace.textDocuments) {
      if (callOf(document.uri) === callId && document.isDirty) await document.save(); // else closing asks
    }
    const tabs = vscode.window.tabGroups.all.flatMap((group) => group.tabs).filter((tab) => callOf(uriOfTab(tab)) === callId);
    if (tabs.length) await vscode.window.tabGroups.close(tabs);
    for (const key of this.#texts.keys()) if (callOf(vscode.Uri.parse(key, true)) === callId) this.#texts.delete(key);
  }

  /** The call whose proposal is in front. */
  get active(): string | undefined {
    return callOf(uriOfTab(vscode.window.tabGroups.activeTabGroup.activeTab));
  }

  #put(uri: vscode.Uri, text: string, proposed: string | undefined): void {
    const key = uri.toString();
    const known = this.#texts.get(key);
    if (known?.proposed === proposed && (proposed !== undefined || known?.text === text)) return; // the user's edits stay
    this.#texts.set(key, { text, proposed, changedAt: Date.now() });
    this.#changed.fire([{ type: vscode.FileChangeType.Changed, uri }]);
  }

  // -- what the editor asks a file system ----------------------------------------------------------------------

  stat(uri: vscode.Uri): vscode.FileStat {
    const { text, proposed, changedAt } = this.#at(uri);
    const size = new TextEncoder().encode(text).length;
    const stat: vscode.FileStat = { type: vscode.FileType.File, ctime: 0, mtime: changedAt, size };
    return proposed === undefined ? { ...stat, permissions: vscode.FilePermission.Readonly } : stat;
  }

  readFile(uri: vscode.Uri): Uint8Array {
    return new TextEncoder().encode(this.#at(uri).text);
  }

  writeFile(uri: vscode.Uri, content: Uint8Array): void {
    const found = this.#at(uri);
    if (found.proposed === undefined) throw vscode.FileSystemError.NoPermissions(uri);
    this.#texts.set(uri.toString(), { ...found, text: new TextDecoder().decode(content), changedAt: Date.now() });
    this.#changed.fire([{ type: vscode.FileChangeType.Changed, uri }]);
  }

  watch(): vscode.Disposable {
    return new vscode.Disposable(() => {});
  }

  readDirectory(uri: vscode.Uri): never {
    throw vscode.FileSystemError.FileNotFound(uri);
  }

  createDirectory(uri: vscode.Uri): never {
    throw vscode.FileSystemError.NoPermissions(uri);
  }

  delete(uri: vscode.Uri): never {
    throw vscode.FileSystemError.NoPermissions(uri);
  }

  rename(uri: vscode.Uri): never {
    throw vscode.FileSystemError.NoPermissions(uri);
  }

  #at(uri: vscode.Uri): Text {
    const found = this.#texts.get(uri.toString());
    if (!found) throw vscode.FileSystemError.FileNotFound(uri);
    return found;
  }
}

/** A text without what the editor may change as it opens it: line ends and the byte order mark. */
function plain(text: string): string {
  return text.replace(/\r\n?/g, "\n").replace(/^\ufeff/, "");
}

function uriOf(callId: string, n: number, side: Side, path: string): vscode.Uri {
  return vscode.Uri.from({ scheme: SCHEME, path: `/${encodeURIComponent(callId)}/${n}/${side}/${path}` });
}

function callOf(uri: vscode.Uri | undefined): string | undefined {
  const name = uri?.scheme === SCHEME ? uri.path.split("/")[1] : undefined;
  return name === undefined ? undefined : decodeURIComponent(name);
}

function sideOf(uri: vscode.Uri): Side {
  return uri.path.split("/")[3] as Side;
}

function uriOfTab(tab: vscode.Tab | undefined): vscode.Uri | undefined {
  const input = tab?.input;
  if (input instanceof vscode.TabInputTextDiff) return input.modified;
  return input instanceof vscode.TabInputText ? input.uri : undefined;
}
