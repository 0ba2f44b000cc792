import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** A directory of the disk as a browser gives it: with the calls, and the errors, that the page relies on. */
export class Disk {
  readonly kind = 'directory';
  readonly name: string;
  readonly path: string;

  constructor(path: string, name = '') {
    this.path = path;
    this.name = name;
  }

  async *entries(): AsyncGenerator<[string, { kind: 'file' | 'directory' }]> {
    for (const entry of await readdir(this.path, { withFileTypes: true })) {
      if (entry.isFile() || entry.isDirectory()) yield [entry.name, { kind: entry.isFile() ? 'file' : 'directory' }];
    }
  }

  async getDirectoryHandle(name: string, { create = false } = {}): Promise<Disk> {
    const path = await this.#place(name, 'directory', create);
    if (create) await mkdir(path, { recursive: true });
    return new Disk(path, name);
  }

  async getFileHandle(name: string, { create = false } = {}): Promise<unknown> {
    const path = await this.#place(name, 'file', create);
    return {
      kind: 'file',
      async getFile() {
        const [body, { mtimeMs }] = await Promise.all([readFile(path), stat(path)]);
        return new File([new Uint8Array(body)], name, { lastModified: Math.floor(mtimeMs) });
      },
      async createWritable() {
        const parts: Uint8Array[] = [];
        return {
          write: async (part: Uint8Array) => void parts.push(part.slice()),
          abort: async () => {},
          async close() {
            await writeFile(`${path}.crswap`, Buffer.concat(parts));
            await rename(`${path}.crswap`, path);
          },
        };
      },
    };
  }

  async removeEntry(name: string, { recursive = false } = {}): Promise<void> {
    await rm(join(this.path, name), { recursive });
  }

  async #place(name: string, kind: 'file' | 'directory', create: boolean): Promise<string> {
    if (!name || name === '.' || name === '..' || /[/\\]/.test(name)) throw new TypeError('Name is not allowed.');
    const path = join(this.path, name);
    const found = await stat(path).catch(() => undefined);
    if (!found && !create) throw new DOMException('It is not there.', 'NotFoundError');
    if (found && found.isDirectory() !== (kind === 'directory')) throw new DOMException('It is of another type.', 'TypeMismatchError');
    return path;
  }
}
