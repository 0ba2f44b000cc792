import * as vscode from "vscode";
import { matching } from "../../web/src/conversation/suggestions.ts";

/** Files that are known at most. */
const MOST_FILES = 20_000;

/** The files that a message may mention. */
export class Mentions implements vscode.Disposable {
  #paths: Promise<string[]> | undefined;
  readonly #subscriptions: vscode.Disposable[];

  constructor() {
    const forget = () => (this.#paths = undefined);
    const watcher = vscode.workspace.createFileSystemWatcher("**/*", false, true, false);
    this.#subscriptions = [watcher, watcher.onDidCreate(forget), watcher.onDidDelete(forget)];
  }

  dispose(): void {
    for (const subscription of this.#subscriptions) subscription.dispose();
  }

  /** The paths that may be meant by the text behind an `@`. */
  async matching(text: string): Promise<string[]> {
    this.#paths ??= pathsOfWorkspace();
    return matching(await this.#paths, text);
  }
}

async function pathsOfWorkspace(): Promise<string[]> {
  const [folder] = vscode.workspace.workspaceFolders ?? [];
  if (!folder) return [];
  const uris = await vscode.workspace.findFiles(new vscode.RelativePattern(folder, "**/*"), undefined, MOST_FILES);
  return uris.map((uri) => pathIn(folder, uri)).filter((path) => path !== undefined);
}

/** A file's path in a folder; undefined if it is elsewhere. */
export function pathIn(folder: vscode.WorkspaceFolder, uri: vscode.Uri): string | undefined {
  const root = folder.uri.path.endsWith("/") ? folder.uri.path : `${folder.uri.path}/`;
  const isIn = uri.scheme === folder.uri.scheme && uri.authority === folder.uri.authority && uri.path.startsWith(root);
  return isIn ? uri.path.slice(root.length) : undefined;
}
