import { ToolError } from '@codelab/client';
import type { Folder } from '../folder.ts';

interface Stats {
  type: 'file' | 'dir';
  mode: number;
  size: number;
  ino: number;
  mtimeMs: number;
  ctimeMs: number;
  uid: number;
  gid: number;
  dev: number;
  isFile(): boolean;
  isDirectory(): boolean;
  isSymbolicLink(): boolean;
}

/** The folder as isomorphic-git wants a file system: `/` is the folder. A browser knows neither modes nor links. */
export function filesOf(folder: Folder) {
  const below = (path: string) => path.replace(/^\/+/, '') || '.';
  const stat = async (path: string): Promise<Stats> => {
    const { type, size, modified } = await told(() => folder.stat(below(path)));
    const isFile = type === 'file';
    return {
      type: isFile ? 'file' : 'dir',
      mode: isFile ? 0o100644 : 0o40000,
      size,
      mtimeMs: modified,
      ctimeMs: modified,
      ino: 0,
      uid: 0,
      gid: 0,
      dev: 0,
      isFile: () => isFile,
      isDirectory: () => !isFile,
      isSymbolicLink: () => false,
    };
  };
  const noLinks = () => Promise.reject(failed('ENOTSUP', 'A page knows no links'));
  return {
    promises: {
      stat,
      lstat: stat,
      async readFile(path: string, options?: string | { encoding?: string }): Promise<string | Uint8Array> {
        const bytes = await told(() => folder.bytes(below(path)));
        const encoding = typeof options === 'string' ? options : options?.encoding;
        if (!encoding) return bytes;
        const text = new TextDecoder().decode(bytes);
        return /(^|\/)\.gitignore$|\/info\/exclude$/.test(path) ? bounded(text) : text;
      },
      writeFile: (path: string, data: string | Uint8Array) => told(() => folder.write(below(path), typeof data === 'string' ? data : new Uint8Array(data))),
      unlink: (path: string) => told(() => folder.remove(below(path))),
      rmdir: (path: string) => told(() => folder.remove(below(path))),
      mkdir: (path: string) => told(() => folder.createDirectory(below(path))),
      readdir: async (path: string) => (await told(() => folder.list(below(path)))).map((item) => item.path.split('/').at(-1)!),
      readlink: noLinks,
      symlink: noLinks,
    },
  };
}

/** Patterns with many stars in one name become regular expressions that could keep the page's only thread busy for ever. */
function bounded(patterns: string): string {
  const isCostly = (line: string) => line.split('/').some((name) => (name.match(/\*+/g)?.length ?? 0) > 3);
  return patterns
    .split('\n')
    .filter((line) => !isCostly(line))
    .join('\n');
}

async function told<Value>(action: () => Promise<Value>): Promise<Value> {
  try {
    return await action();
  } catch (error) {
    if (!(error instanceof ToolError)) throw error;
    // A hostile repository may name files outside: for it there are none.
    if (error.code === 'FILE_NOT_FOUND' || error.code === 'PATH_OUTSIDE_WORKSPACE') throw failed('ENOENT', error.message);
    if (error.code === 'INVALID_PATH') throw failed('ENOTDIR', error.message);
    throw error;
  }
}

function failed(code: string, message: string): Error {
  return Object.assign(new Error(`${code}: ${message}`), { code });
}
