import { ToolError } from "@codelab/client";
import * as vscode from "vscode";
import { type Files, type Item, MOST_BYTES, UNINTERESTING } from "../../web/src/workspace/files.ts";
import { names, namesBelow } from "../../web/src/workspace/paths.ts";
import { IMAGE } from "./images.ts";

const { fs } = vscode.workspace;
const { Directory, File, SymbolicLink } = vscode.FileType;
const DECODER = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * The files of a folder of the workspace, through the editor: what is not saved yet is what a file has. No link is
 * followed, so nothing outside of the folder is read or written.
 */
export class WorkspaceFiles implements Files {
  readonly root: vscode.Uri;

  constructor(root: vscode.Uri) {
    this.root = root;
  }

  /** Where a path is. Throws a ToolError if a link is on the way. */
  async uriOf(path: string): Promise<vscode.Uri> {
    let uri = this.root;
    for (const name of names(path)) {
      uri = vscode.Uri.joinPath(uri, name);
      const type = (await statOf(uri))?.type ?? vscode.FileType.Unknown;
      if (type & SymbolicLink) throw new ToolError("PATH_OUTSIDE_WORKSPACE", `${path} leads through a link, which may lead out of the workspace`);
    }
    return uri;
  }

  async bytes(path: string): Promise<Uint8Array<ArrayBuffer>> {
    const uri = await this.#file(path);
    const unsaved = unsavedAt(uri);
    return new Uint8Array(unsaved ? new TextEncoder().encode(unsaved.getText()) : await told(path, fs.readFile(uri)));
  }

  async read(path: string): Promise<{ content: string; size: number; modified: string }> {
    const { size, modified } = await this.stat(path);
    if (size > MOST_BYTES) throw new ToolError("FILE_TOO_LARGE", `${path} has ${size} bytes`);
    return { content: decoded(await this.bytes(path), path), size, modified: new Date(modified).toISOString() };
  }

  async write(path: string, content: string | Uint8Array<ArrayBuffer>, check?: () => Promise<void>): Promise<number> {
    const body = typeof content === "string" ? new TextEncoder().encode(content) : content;
    if (body.length > MOST_BYTES) throw new ToolError("FILE_TOO_LARGE", `The content has ${body.length} bytes`);
    namesBelow(path);
    const uri = await this.uriOf(path);
    await check?.();
    const unsaved = unsavedAt(uri);
    if (unsaved && typeof content === "string") await saveAs(unsaved, content, path);
    else await told(path, fs.writeFile(uri, body));
    return body.length;
  }

  async has(path: string): Promise<boolean> {
    try {
      await this.#file(path);
      return true;
    } catch (error) {
      if (error instanceof ToolError && error.code === "FILE_NOT_FOUND") return false;
      throw error;
    }
  }

  async stat(path: string): Promise<{ type: "file" | "directory"; size: number; modified: number }> {
    const stat = await statOf(await this.uriOf(path));
    if (!stat) throw notFound(path);
    if (stat.type === Directory) return { type: "directory", size: 0, modified: 0 };
    if (stat.type !== File) throw new ToolError("INVALID_PATH", `${path} is neither a file nor a directory`);
    return { type: "file", size: stat.size, modified: stat.mtime };
  }

  async createDirectory(path: string): Promise<void> {
    namesBelow(path);
    await told(path, fs.createDirectory(await this.uriOf(path)));
  }

  async remove(path: string): Promise<void> {
    namesBelow(path);
    await told(path, fs.delete(await this.uriOf(path), { recursive: true }));
  }

  async move(from: string, to: string): Promise<void> {
    const [source, target] = [namesBelow(from).join("/"), namesBelow(to).join("/")];
    if (`${target}/`.startsWith(`${source}/`)) throw new ToolError("INVALID_PATH", `${to} is ${from} itself or below it`);
    const [fromUri, toUri] = [await this.uriOf(from), await this.uriOf(to)];
    if (await statOf(toUri)) throw new ToolError("EXECUTION_FAILED", `${to} exists`);
    await told(to, fs.createDirectory(vscode.Uri.joinPath(toUri, "..")));
    await told(from, fs.rename(fromUri, toUri, { overwrite: false }));
  }

  /** Links and devices are left out: nothing can be done with them. */
  async list(path: string): Promise<Item[]> {
    const parts = names(path);
    const entries = await told(path, fs.readDirectory(await this.uriOf(path)));
    const items = entries.flatMap(([name, type]): Item[] => {
      if (type !== File && type !== Directory) return [];
      return [{ path: [...parts, name].join("/"), type: type === File ? "file" : "directory" }];
    });
    return items.sort(inOrder);
  }

  async *walk(path: string, all = false): AsyncGenerator<Item> {
    for (const item of await this.list(path)) {
      if (!all && item.type === "directory" && UNINTERESTING.has(item.path.split("/").at(-1)!)) continue;
      yield item;
      if (item.type === "directory") yield* this.walk(item.path, all);
    }
  }

  async #file(path: string): Promise<vscode.Uri> {
    namesBelow(path);
    if ((await this.stat(path)).type !== "file") throw new ToolError("INVALID_PATH", `${path} is a directory`);
    return this.uriOf(path);
  }
}

function unsavedAt(uri: vscode.Uri): vscode.TextDocument | undefined {
  return vscode.workspace.textDocuments.find((document) => document.isDirty && document.uri.toString() === uri.toString());
}

/**
 * Give a document that is not saved a text, and save that. What formats files as they are saved must not change what
 * the user has approved, and only this command of the editor leaves it out; it saves the editor that is in front.
 */
async function saveAs(document: vscode.TextDocument, text: string, path: string): Promise<void> {
  const edit = new vscode.WorkspaceEdit();
  const all = new vscode.Range(document.positionAt(0), document.positionAt(document.getText().length));
  edit.replace(document.uri, all, withoutMark(text));
  await vscode.workspace.applyEdit(edit);
  await vscode.window.showTextDocument(document);
  await vscode.commands.executeCommand("workbench.action.files.saveWithoutFormatting");
  const saved = await fs.readFile(document.uri);
  if (document.isDirty || withoutMark(decoded(saved, path)) !== withoutMark(text)) {
    throw new ToolError("EXECUTION_FAILED", `The editor has not saved ${path} as it was approved: read it again`);
  }
}

/** A text without a byte order mark, which is none of a document's text. */
function withoutMark(text: string): string {
  return text.replace(/^\ufeff/, "");
}

/** UTF-8 text; a ToolError if it is not. */
function decoded(bytes: Uint8Array, path: string): string {
  try {
    const text = DECODER.decode(bytes);
    if (!text.includes("\0")) return text;
  } catch {
    // Told below.
  }
  throw new ToolError("ENCODING_ERROR", `${path} is not a UTF-8 text file${IMAGE.test(path) ? ": view_image shows images" : ""}`);
}

async function statOf(uri: vscode.Uri): Promise<vscode.FileStat | undefined> {
  try {
    return await fs.stat(uri);
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw new ToolError("EXECUTION_FAILED", `${uri.path}: ${(error as Error).message}`);
  }
}

/** A name below a file is missing, too; the editor has no code of its own for that. */
function isMissing(error: unknown): boolean {
  const { code, message } = error as { code?: string; message?: string };
  return code === "FileNotFound" || code === "FileNotADirectory" || /ENOENT|ENOTDIR/.test(message ?? "");
}

async function told<Value>(path: string, action: Thenable<Value>): Promise<Value> {
  try {
    return await action;
  } catch (error) {
    if (isMissing(error)) throw notFound(path);
    const { code, message } = error as { code?: string; message?: string };
    const isRefused = code === "NoPermissions" || /EACCES|EPERM|EROFS/.test(message ?? "");
    throw new ToolError(isRefused ? "PERMISSION_DENIED" : "EXECUTION_FAILED", `${path}: ${message ?? code}`);
  }
}

function inOrder(one: Item, other: Item): number {
  return one.type === other.type ? (one.path < other.path ? -1 : 1) : one.type === "directory" ? -1 : 1;
}

function notFound(path: string): ToolError {
  return new ToolError("FILE_NOT_FOUND", `File not found: ${path}`);
}
