export interface Item {
  path: string;
  type: 'file' | 'directory';
}

/** The files of a workspace, by paths below it that no link leads out of. Throws ToolErrors with the protocol's codes. */
export interface Files {
  bytes(path: string): Promise<Uint8Array<ArrayBuffer>>;
  /** A text file's content; its line ends and a byte order mark are kept. */
  read(path: string): Promise<{ content: string; size: number; modified: string }>;
  /** Write a file completely or not at all. `check` may throw, just before. Gives the number of bytes. */
  write(path: string, content: string | Uint8Array<ArrayBuffer>, check?: () => Promise<void>): Promise<number>;
  has(path: string): Promise<boolean>;
  /** What is at a path; `modified` is in milliseconds. */
  stat(path: string): Promise<{ type: 'file' | 'directory'; size: number; modified: number }>;
  createDirectory(path: string): Promise<void>;
  remove(path: string): Promise<void>;
  /** Move a file or a directory. Nothing is removed before all of it is there. */
  move(from: string, to: string): Promise<void>;
  /** The entries of a directory, directories first. */
  list(path: string): Promise<Item[]>;
  /** Everything below a directory; without `all`, not what no one reads, such as `.git`. */
  walk(path: string, all?: boolean): AsyncGenerator<Item>;
}

/** The most that is read or written as a text. */
export const MOST_BYTES = 1_000_000;
/** Directories that lists and searches of everything leave out. */
export const UNINTERESTING: ReadonlySet<string> = new Set(['.git', 'node_modules', '.venv', '__pycache__']);
