import { constants, type Stats } from "node:fs";
import { mkdir, open, realpath, rename, rm, stat, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, dirname, isAbsolute, join } from "node:path";
import { checkSize } from "../../web/src/notes/notes.ts";
import type { UsersNotes } from "./notes.ts";

/** The user's notes where the terminal has them: in its folder of settings. */
export function usersNotes(): UsersNotes {
  const root = process.env["XDG_CONFIG_HOME"] ?? "";
  const path = join(isAbsolute(root) ? root : join(homedir(), ".config"), "codelab", "notes.md");
  return { path, read: () => read(path), write: (content) => write(path, content) };
}

async function read(path: string): Promise<string> {
  const real = await realOf(path);
  const file = await orNothing(open(real, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0))); // a pipe must not be waited for
  if (!file) return "";
  try {
    const about = await file.stat();
    if (!about.isFile()) throw new Error(`${path} is not a file`);
    checkSize(about.size);
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(await file.readFile());
  } catch (error) {
    throw error instanceof TypeError ? new Error(`${path} is not UTF-8`) : error;
  } finally {
    await file.close();
  }
}

/** Replace the file at once: the terminal may read it meanwhile. */
async function write(path: string, content: string): Promise<void> {
  const real = await realOf(path);
  const before: Stats | undefined = await orNothing(stat(real));
  await mkdir(dirname(real), { recursive: true, mode: 0o700 });
  const next = join(dirname(real), `.${basename(real)}.${crypto.randomUUID()}`);
  try {
    await writeFile(next, content, { flag: "wx", mode: before ? before.mode & 0o777 : 0o600 });
    await rename(next, real);
  } catch (error) {
    await rm(next, { force: true });
    throw error;
  }
}

/** The file itself: it may be a link to wherever the user keeps such files, but only to another such file. */
async function realOf(path: string): Promise<string> {
  const real = (await orNothing(realpath(path))) ?? path;
  if (!real.toLowerCase().endsWith(".md")) throw new Error(`${path} is a link to something else`);
  return real;
}

async function orNothing<Value>(found: Promise<Value>): Promise<Value | undefined> {
  try {
    return await found;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
