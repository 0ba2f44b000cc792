/** What the extension uses of the editor's API, on the disk of this machine, with a user who is a script. */

import * as disk from "node:fs/promises";
import { dirname } from "node:path";

type Listener<T> = (event: T) => unknown;

export class Disposable {
  readonly #end: () => void;

  constructor(end: () => void) {
    this.#end = end;
  }

  static from(...all: { dispose(): unknown }[]): Disposable {
    return new Disposable(() => all.forEach((one) => one.dispose()));
  }

  dispose(): void {
    this.#end();
  }
}

export class EventEmitter<T> {
  readonly #listeners = new Set<Listener<T>>();
  readonly event = (listener: Listener<T>): Disposable => {
    this.#listeners.add(listener);
    return new Disposable(() => this.#listeners.delete(listener));
  };

  fire(event: T): void {
    for (const listener of this.#listeners) listener(event);
  }

  dispose(): void {
    this.#listeners.clear();
  }
}

export class Uri {
  readonly authority = "";
  readonly query = "";
  readonly scheme: string;
  readonly path: string;

  private constructor(scheme: string, path: string) {
    this.scheme = scheme;
    this.path = path;
  }

  static file(path: string): Uri {
    return new Uri("file", path);
  }

  static from({ scheme, path }: { scheme: string; path: string }): Uri {
    return new Uri(scheme, path);
  }

  static parse(text: string): Uri {
    const { protocol, pathname } = new URL(text);
    return new Uri(protocol.slice(0, -1), decodeURIComponent(pathname));
  }

  static joinPath(uri: Uri, ...names: string[]): Uri {
    return new Uri(uri.scheme, new URL(`x:${[uri.path, ...names].map(encodeURI).join("/")}`).pathname.split("/").map(decodeURIComponent).join("/"));
  }

  get fsPath(): string {
    return this.path;
  }

  toString(): string {
    return `${this.scheme}://${this.path.split("/").map(encodeURIComponent).join("/")}`;
  }
}

export const FileType = { Unknown: 0, File: 1, Directory: 2, SymbolicLink: 64 };
export const FilePermission = { Readonly: 1 };
export const FileChangeType = { Changed: 1, Created: 2, Deleted: 3 };
export const StatusBarAlignment = { Left: 1, Right: 2 };

export class FileSystemError extends Error {
  readonly code: string;

  constructor(code: string, at: unknown) {
    super(`${code} ${String(at)}`);
    this.code = code;
  }

  static FileNotFound(at: unknown): FileSystemError {
    return new FileSystemError("FileNotFound", at);
  }

  static NoPermissions(at: unknown): FileSystemError {
    return new FileSystemError("NoPermissions", at);
  }
}

export class ThemeColor {
  readonly id: string;

  constructor(id: string) {
    this.id = id;
  }
}

export class RelativePattern {}

export class TabInputText {
  readonly uri: Uri;

  constructor(uri: Uri) {
    this.uri = uri;
  }
}

export class TabInputTextDiff {
  readonly original: Uri;
  readonly modified: Uri;

  constructor(original: Uri, modified: Uri) {
    this.original = original;
    this.modified = modified;
  }
}

export class CancellationTokenSource {
  readonly token = {};
  cancel(): void {}
  dispose(): void {}
}

export class Range {}

export class WorkspaceEdit {
  readonly replacements: { uri: Uri; text: string }[] = [];

  replace(uri: Uri, _: Range, text: string): void {
    this.replacements.push({ uri, text });
  }
}

// -- documents -------------------------------------------------------------------------------------------------

export class Document {
  readonly uri: Uri;
  isDirty = false;
  #text: string;

  constructor(uri: Uri, text: string) {
    this.uri = uri;
    this.#text = text;
  }

  getText(): string {
    return this.#text;
  }

  positionAt(at: number): number {
    return at;
  }

  /** As the user's keys do. */
  type(text: string): void {
    this.#text = text;
    this.isDirty = true;
    changedDocument.fire({ document: this });
  }

  async save(): Promise<boolean> {
    await workspace.fs.writeFile(this.uri, new TextEncoder().encode(this.#text));
    this.isDirty = false;
    return true;
  }
}

interface Provider {
  stat(uri: Uri): unknown;
  readFile(uri: Uri): Uint8Array;
  writeFile(uri: Uri, content: Uint8Array): void;
}

const providers = new Map<string, Provider>();
const changedDocument = new EventEmitter<{ document: Document }>();
const granted = new EventEmitter<void>();
const never = () => new Disposable(() => {});

const found = async <T>(uri: Uri, work: () => Promise<T>): Promise<T> => {
  try {
    return await work();
  } catch (error) {
    throw (error as { code?: string }).code === "ENOENT" ? FileSystemError.FileNotFound(uri) : error;
  }
};

async function typeOf(path: string): Promise<number> {
  const link = (await disk.lstat(path)).isSymbolicLink() ? FileType.SymbolicLink : 0;
  const stat = await disk.stat(path);
  return link | (stat.isFile() ? FileType.File : stat.isDirectory() ? FileType.Directory : 0);
}

export const workspace = {
  isTrusted: true,
  workspaceFolders: [] as { uri: Uri; name: string; index: number }[],
  textDocuments: [] as Document[],
  settings: {} as Record<string, unknown>,
  fs: {
    stat: (uri: Uri) =>
      found(uri, async () => {
        const { size, mtimeMs: mtime } = await disk.stat(uri.path);
        return { type: await typeOf(uri.path), size, mtime, ctime: 0 };
      }),
    readFile: async (uri: Uri): Promise<Uint8Array> => providers.get(uri.scheme)?.readFile(uri) ?? found(uri, () => disk.readFile(uri.path)),
    writeFile: async (uri: Uri, content: Uint8Array) => {
      const provider = providers.get(uri.scheme);
      if (provider) return provider.writeFile(uri, content);
      await disk.mkdir(dirname(uri.path), { recursive: true });
      await disk.writeFile(uri.path, content);
    },
    createDirectory: async (uri: Uri) => void (await disk.mkdir(uri.path, { recursive: true })),
    delete: (uri: Uri) => found(uri, () => disk.rm(uri.path, { recursive: true })),
    rename: (from: Uri, to: Uri) => found(from, () => disk.rename(from.path, to.path)),
    readDirectory: (uri: Uri) =>
      found(uri, async () => {
        const names = await disk.readdir(uri.path);
        return Promise.all(names.map(async (name) => [name, await typeOf(`${uri.path}/${name}`)] as const));
      }),
  },
  getConfiguration: () => ({ get: (name: string, before: unknown) => workspace.settings[name] ?? before }),
  registerFileSystemProvider: (scheme: string, provider: Provider) => {
    providers.set(scheme, provider);
    return new Disposable(() => providers.delete(scheme));
  },
  onDidChangeTextDocument: changedDocument.event,
  onDidGrantWorkspaceTrust: granted.event,
  onDidChangeConfiguration: never,
  onDidChangeWorkspaceFolders: never,
  createFileSystemWatcher: () => ({ onDidCreate: never, onDidDelete: never, dispose() {} }),
  findFiles: async () => {
    const [folder] = workspace.workspaceFolders;
    const names = await disk.readdir(folder!.uri.path, { recursive: true });
    return names.map((name) => Uri.joinPath(folder!.uri, name));
  },
  openTextDocument: async (wanted: Uri | { content: string }): Promise<Document> => {
    if (!(wanted instanceof Uri)) return new Document(Uri.from({ scheme: "untitled", path: "/" }), wanted.content);
    const open = workspace.textDocuments.find(({ uri }) => uri.toString() === wanted.toString());
    if (open) return open;
    const document = new Document(wanted, new TextDecoder().decode(await workspace.fs.readFile(wanted)));
    workspace.textDocuments.push(document);
    return document;
  },
  applyEdit: async ({ replacements }: WorkspaceEdit) => {
    for (const { uri, text } of replacements) (await workspace.openTextDocument(uri)).type(text);
    return true;
  },
};

// -- the window ------------------------------------------------------------------------------------------------

interface Tab {
  label: string;
  input: TabInputText | TabInputTextDiff;
}

const group = { tabs: [] as Tab[], activeTab: undefined as Tab | undefined };
let inFront: Document | undefined;

function openTab(tab: Tab): void {
  group.tabs.push(tab);
  group.activeTab = tab;
}

/** What the user is asked, and answers; what the editor has shown. */
export const user = {
  messages: [] as string[],
  warning: async (_message: string, _detail: string): Promise<string | undefined> => undefined,
  pick: async (_items: readonly { label: string }[]): Promise<unknown> => undefined,
  input: async (_prompt: string): Promise<string | undefined> => undefined,
  terminal: "",
  type: (_data: string): void => {},
  grantTrust: (): void => {
    workspace.isTrusted = true;
    granted.fire();
  },
  tabs: group.tabs,
};

const told = async (message: string): Promise<undefined> => void user.messages.push(message);

interface Pty {
  onDidWrite(listener: Listener<string>): Disposable;
  open(): void;
  close(): void;
  handleInput(data: string): void;
}

export const views = new Map<string, { resolveWebviewView(view: unknown): void }>();

export const window = {
  tabGroups: {
    get all() {
      return [group];
    },
    get activeTabGroup() {
      return group;
    },
    close: async (tabs: readonly Tab[]) => {
      for (const tab of tabs) group.tabs.splice(group.tabs.indexOf(tab), 1);
      if (!group.tabs.includes(group.activeTab!)) group.activeTab = group.tabs.at(-1);
    },
  },
  showTextDocument: async (wanted: Uri | Document) => {
    const document = wanted instanceof Uri ? await workspace.openTextDocument(wanted) : wanted;
    inFront = document;
    openTab({ label: document.uri.path, input: new TabInputText(document.uri) });
    return { document };
  },
  showQuickPick: (items: readonly { label: string }[]) => user.pick(items),
  showInputBox: ({ prompt = "" }: { prompt?: string }) => user.input(prompt),
  showWarningMessage: (message: string, options: { modal?: boolean; detail?: string } = {}) =>
    options.modal ? user.warning(message, options.detail ?? "") : told(message),
  showInformationMessage: told,
  showErrorMessage: told,
  createTerminal: ({ pty }: { pty: Pty }) => {
    pty.onDidWrite((text) => (user.terminal += text));
    user.type = (data) => pty.handleInput(data);
    pty.open();
    return { show() {}, dispose: () => pty.close() };
  },
  createStatusBarItem: () => ({ text: "", show() {}, dispose() {} }),
  registerWebviewViewProvider: (id: string, provider: { resolveWebviewView(view: unknown): void }) => {
    views.set(id, provider);
    return new Disposable(() => views.delete(id));
  },
};

const registered = new Map<string, (...args: unknown[]) => unknown>();

export const commands = {
  registerCommand: (name: string, run: (...args: unknown[]) => unknown) => {
    registered.set(name, run);
    return new Disposable(() => registered.delete(name));
  },
  executeCommand: async (name: string, ...args: unknown[]) => {
    if (name === "vscode.diff") {
      const [before, after, label] = args as [Uri, Uri, string];
      for (const uri of [before, after]) await workspace.openTextDocument(uri);
      return openTab({ label, input: new TabInputTextDiff(before, after) });
    }
    if (name === "workbench.action.files.saveWithoutFormatting") return inFront?.save();
    return registered.get(name)?.(...args);
  },
};
