import { ToolError } from '@codelab/client';
import { type Files, type Item, MOST_BYTES, UNINTERESTING } from './files.ts';
import { names, namesBelow } from './paths.ts';

/**
 * A directory that the browser gave: of its own storage or of the disk. Every path is resolved name by name from its
 * handle, which no name leads out of.
 */
export class Folder implements Files {
  readonly name: string;
  readonly #root: FileSystemDirectoryHandle;

  constructor(root: FileSystemDirectoryHandle, name: string) {
    this.#root = root;
    this.name = name;
  }

  async bytes(path: string): Promise<Uint8Array<ArrayBuffer>> {
    const file = await this.#file(path);
    return new Uint8Array(await file.arrayBuffer());
  }

  async read(path: string): Promise<{ content: string; size: number; modified: string }> {
    const file = await this.#file(path);
    if (file.size > MOST_BYTES) throw new ToolError('FILE_TOO_LARGE', `${path} has ${file.size} bytes`);
    const content = decoded(await file.arrayBuffer(), path);
    return { content, size: file.size, modified: new Date(file.lastModified).toISOString() };
  }

  async write(path: string, content: string | Uint8Array<ArrayBuffer>, check?: () => Promise<void>): Promise<number> {
    const body = typeof content === 'string' ? new TextEncoder().encode(content) : content;
    if (body.length > MOST_BYTES) throw new ToolError('FILE_TOO_LARGE', `The content has ${body.length} bytes`);
    const parts = namesBelow(path);
    return told(path, async () => {
      const directory = await this.#directory(parts.slice(0, -1), true);
      const handle = await directory.getFileHandle(parts.at(-1)!, { create: true });
      const writable = await handle.createWritable(); // The content replaces the file's when it is closed.
      try {
        await writable.write(body);
        await check?.();
      } catch (error) {
        await writable.abort();
        throw error;
      }
      await writable.close();
      return body.length;
    });
  }

  async has(path: string): Promise<boolean> {
    try {
      await this.#file(path);
      return true;
    } catch (error) {
      if (error instanceof ToolError && error.code === 'FILE_NOT_FOUND') return false;
      throw error;
    }
  }

  async stat(path: string): Promise<{ type: 'file' | 'directory'; size: number; modified: number }> {
    const parts = names(path);
    const type = parts.length ? await this.#type(parts) : 'directory';
    if (!type) throw notFound(path);
    if (type === 'directory') return { type, size: 0, modified: 0 };
    const { size, lastModified } = await this.#file(path);
    return { type, size, modified: lastModified };
  }

  async createDirectory(path: string): Promise<void> {
    const parts = namesBelow(path);
    await told(path, () => this.#directory(parts, true));
  }

  async remove(path: string): Promise<void> {
    const parts = namesBelow(path);
    await told(path, async () => {
      const directory = await this.#directory(parts.slice(0, -1));
      await directory.removeEntry(parts.at(-1)!, { recursive: true });
    });
  }

  async move(from: string, to: string): Promise<void> {
    const [source, target] = [namesBelow(from), namesBelow(to)];
    if (`${target.join('/')}/`.startsWith(`${source.join('/')}/`)) {
      throw new ToolError('INVALID_PATH', `${to} is ${from} itself or below it`);
    }
    if (await this.#type(target)) throw new ToolError('EXECUTION_FAILED', `${to} exists`);
    const type = await this.#type(source);
    if (!type) throw notFound(from);
    if (type === 'file') {
      await this.write(to, await this.bytes(from));
    } else {
      await this.createDirectory(to);
      for await (const item of this.walk(from, true)) {
        const place = `${target.join('/')}/${item.path.slice(source.join('/').length + 1)}`;
        if (item.type === 'directory') await this.createDirectory(place);
        else await this.write(place, await this.bytes(item.path));
      }
    }
    await this.remove(from);
  }

  async list(path: string): Promise<Item[]> {
    const parts = names(path);
    return told(path, async () => {
      const found: Item[] = [];
      for await (const [name, handle] of (await this.#directory(parts)).entries()) {
        found.push({ path: [...parts, name].join('/'), type: handle.kind });
      }
      return found.sort(inOrder);
    });
  }

  async *walk(path: string, all = false): AsyncGenerator<Item> {
    for (const item of await this.list(path)) {
      if (!all && item.type === 'directory' && UNINTERESTING.has(item.path.split('/').at(-1)!)) continue;
      yield item;
      if (item.type === 'directory') yield* this.walk(item.path, all);
    }
  }

  async #type(parts: string[]): Promise<'file' | 'directory' | undefined> {
    try {
      const directory = await this.#directory(parts.slice(0, -1));
      for (const kind of ['file', 'directory'] as const) {
        try {
          if (kind === 'file') await directory.getFileHandle(parts.at(-1)!);
          else await directory.getDirectoryHandle(parts.at(-1)!);
          return kind;
        } catch (error) {
          if (!(error instanceof DOMException && error.name === 'TypeMismatchError')) throw error;
        }
      }
    } catch (error) {
      if (!(error instanceof DOMException && error.name === 'NotFoundError')) throw failure(error, parts.join('/'));
    }
    return undefined;
  }

  async #file(path: string): Promise<File> {
    const parts = namesBelow(path);
    return told(path, async () => {
      const directory = await this.#directory(parts.slice(0, -1));
      return (await directory.getFileHandle(parts.at(-1)!)).getFile();
    });
  }

  async #directory(parts: string[], create = false): Promise<FileSystemDirectoryHandle> {
    let found = this.#root;
    for (const part of parts) found = await found.getDirectoryHandle(part, { create });
    return found;
  }
}

/** UTF-8 text; a ToolError if it is not. */
export function decoded(bytes: ArrayBuffer, path: string): string {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    if (!text.includes('\0')) return text;
  } catch {
    // Told below.
  }
  throw new ToolError('ENCODING_ERROR', `${path} is not a UTF-8 text file`);
}

function inOrder(one: Item, other: Item): number {
  return one.type === other.type ? (one.path < other.path ? -1 : 1) : one.type === 'directory' ? -1 : 1;
}

async function told<Value>(path: string, action: () => Promise<Value>): Promise<Value> {
  try {
    return await action();
  } catch (error) {
    throw failure(error, path);
  }
}

function failure(error: unknown, path: string): unknown {
  if (error instanceof TypeError) return new ToolError('INVALID_PATH', `The browser does not allow the name ${path}`);
  if (!(error instanceof DOMException)) return error;
  switch (error.name) {
    case 'NotFoundError':
      return notFound(path);
    case 'TypeMismatchError':
      return new ToolError('INVALID_PATH', `A part of ${path} is a file where a directory is needed, or the other way round`);
    case 'NotAllowedError':
    case 'NoModificationAllowedError':
    case 'SecurityError':
      return new ToolError('PERMISSION_DENIED', `The browser does not allow this for ${path}: ${error.message}`);
    default:
      return new ToolError('EXECUTION_FAILED', `${path}: ${error.message || error.name}`);
  }
}

function notFound(path: string): ToolError {
  return new ToolError('FILE_NOT_FOUND', `File not found: ${path}`);
}
