import { createHash, randomUUID } from "node:crypto";
import { chmod, link, lstat, mkdir, open, readFile, readdir, rename, rm, stat } from "node:fs/promises";
import { connect, createServer, type Server } from "node:net";
import { homedir, tmpdir } from "node:os";
import { isAbsolute, join } from "node:path";

import { SessionError, messageOf } from "./errors.ts";
import type { Claim, Journal, JournalEntry, OpenJournal, Outcome } from "./journal.ts";

/** Settled calls are forgotten after a day, all others after a week: the server waits a day at most for an approval. */
const DAY_MS = 86_400_000;
/** The longest path of a Unix socket that every system accepts. */
const SOCKET_PATH = 100;

/** The folder of the client's state: `$XDG_STATE_HOME/codelab`, or `~/.local/state/codelab`. */
export function stateFolder(): string {
  const root = process.env["XDG_STATE_HOME"] ?? "";
  return join(isAbsolute(root) ? root : join(homedir(), ".local", "state"), "codelab");
}

/**
 * A journal in a folder: each call has a file that says it has begun, one with its outcome, and one that says the
 * server has settled it. Each is created once, whoever comes first. Several processes of this machine may share it:
 * each listens on a socket of its own while it lives, so that the others can tell a call that is being executed from
 * one whose process died.
 */
export function fileJournal(folder = join(stateFolder(), "typescript")): OpenJournal {
  return async (scope) => {
    const name = createHash("sha256").update(scope).digest("hex").slice(0, 32);
    const journal = new FileJournal(folder, join(folder, name));
    await journal.prepare();
    return journal;
  };
}

interface Begun {
  callId: string;
  seq: number;
  owner: string;
}

class FileJournal implements Journal {
  readonly #folder: string;
  readonly #calls: string;
  readonly #owner = randomUUID();
  #server: Server | undefined;

  constructor(folder: string, calls: string) {
    this.#folder = folder;
    this.#calls = calls;
  }

  prepare(): Promise<void> {
    return this.#told(async () => {
      await mkdir(this.#calls, { recursive: true, mode: 0o700 });
      for (const folder of [this.#folder, this.#calls]) await close(folder);
      await new Promise<void>((resolve, reject) => {
        const server = createServer((socket) => socket.destroy());
        server.once("error", reject);
        server.listen(this.#socketOf(this.#owner), () => resolve());
        server.unref();
        this.#server = server;
      });
      await this.#prune();
    });
  }

  begin(callId: string, seq: number): Promise<Claim> {
    return this.#told(async (): Promise<Claim> => {
      const begun: Begun = { callId, seq, owner: this.#owner };
      if (await create(this.#file(callId, "begun"), begun)) return { state: "new" };
      const outcome = await this.#outcome(callId);
      if (outcome) return { state: "finished", outcome };
      const found = await readJson<Begun>(this.#file(callId, "begun"));
      return { state: (await this.#isAlive(found?.owner)) ? "running" : "interrupted" };
    });
  }

  finish(callId: string, outcome: Outcome): Promise<Outcome> {
    return this.#told(async () => {
      if (await create(this.#file(callId, "done"), outcome)) return outcome;
      return (await this.#outcome(callId)) ?? outcome;
    });
  }

  settle(callId: string): Promise<void> {
    return this.#told(async () => {
      await create(this.#file(callId, "settled"), {});
    });
  }

  unsettled(): Promise<JournalEntry[]> {
    return this.#told(async () => {
      const names = new Set(await readdir(this.#calls));
      const found: JournalEntry[] = [];
      for (const name of names) {
        if (!name.endsWith(".begun") || names.has(name.replace(".begun", ".settled"))) continue;
        const begun = await readJson<Begun>(join(this.#calls, name));
        if (!begun) continue;
        const outcome = await this.#outcome(begun.callId);
        const interrupted = !outcome && !(await this.#isAlive(begun.owner));
        found.push({ callId: begun.callId, seq: begun.seq, interrupted, ...(outcome && { outcome }) });
      }
      return found.sort((one, other) => one.seq - other.seq);
    });
  }

  async position(): Promise<number> {
    const found = await readJson<{ seq?: unknown }>(join(this.#calls, "position"));
    return typeof found?.seq === "number" ? found.seq : 0;
  }

  setPosition(seq: number): Promise<void> {
    return this.#replace(join(this.#calls, "position"), { seq });
  }

  decide(name: string, decision: string): Promise<void> {
    return this.#replace(this.#file(name, "decided"), { decision });
  }

  decided(name: string): Promise<string | undefined> {
    return this.#told(async () => (await readJson<{ decision?: string }>(this.#file(name, "decided")))?.decision);
  }

  /** Write a file whole, in place of the one that there may be. */
  #replace(path: string, content: unknown): Promise<void> {
    return this.#told(async () => {
      const written = `${path}-${this.#owner}`;
      await rm(written, { force: true });
      await create(written, content);
      await rename(written, path);
    });
  }

  forget(): Promise<void> {
    return this.#told(async () => {
      await rm(this.#calls, { recursive: true, force: true });
      await mkdir(this.#calls, { recursive: true, mode: 0o700 });
    });
  }

  async close(): Promise<void> {
    await new Promise<void>((resolve) => (this.#server ? this.#server.close(() => resolve()) : resolve()));
  }

  #outcome(callId: string): Promise<Outcome | undefined> {
    return readJson<Outcome>(this.#file(callId, "done"));
  }

  /** The id is the server's: its digest is a name that every file system accepts. */
  #file(callId: string, what: "begun" | "done" | "settled" | "decided"): string {
    const name = createHash("sha256").update(callId).digest("hex").slice(0, 32);
    return join(this.#calls, `${name}.${what}`);
  }

  #socketOf(owner: string): string {
    if (process.platform === "win32") return `\\\\.\\pipe\\codelab-${owner}`;
    const path = join(this.#folder, `${owner}.sock`);
    return path.length <= SOCKET_PATH ? path : join(tmpdir(), `codelab-${owner}.sock`);
  }

  async #isAlive(owner: string | undefined): Promise<boolean> {
    if (owner === this.#owner) return true;
    if (!owner || !/^[0-9a-f-]{36}$/.test(owner)) return false;
    return new Promise((resolve) => {
      const socket = connect(this.#socketOf(owner));
      socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
      socket.once("connect", () => socket.destroy());
    });
  }

  /** Forget what is old, in every session. */
  async #prune(): Promise<void> {
    const now = Date.now();
    for (const entry of await readdir(this.#folder, { withFileTypes: true })) {
      const path = join(this.#folder, entry.name);
      if (!entry.isDirectory()) {
        const owner = entry.name.replace(/\.sock$/, "");
        if (entry.name.endsWith(".sock") && !(await this.#isAlive(owner))) await rm(path, { force: true });
        continue;
      }
      const names = await readdir(path);
      for (const name of names) {
        const age = now - ((await stat(join(path, name)).catch(() => undefined))?.mtimeMs ?? now);
        const isSettled = names.includes(name.replace(/\.\w+$/, ".settled"));
        if (age > 7 * DAY_MS || (isSettled && age > DAY_MS)) await rm(join(path, name), { force: true });
      }
    }
  }

  async #told<Found>(work: () => Promise<Found>): Promise<Found> {
    try {
      return await work();
    } catch (error) {
      throw new SessionError(
        "journal",
        `The journal of executed calls in ${this.#folder} cannot be used: ${messageOf(error)}. ` +
          "Set XDG_STATE_HOME to a folder that can be written to.",
      );
    }
  }
}

/** Close a folder to other users, who may have made it, or could have read what an older version wrote to it. */
async function close(folder: string): Promise<void> {
  const { uid } = await lstat(folder);
  if (process.getuid && uid !== process.getuid()) throw new Error(`${folder} belongs to another user`);
  await chmod(folder, 0o700);
}

/** Create a file, whole or not at all, that outlives a crash of the machine. Gives false if there is one. */
async function create(path: string, content: unknown): Promise<boolean> {
  const written = `${path}.${randomUUID()}`;
  const file = await open(written, "wx", 0o600);
  try {
    await file.writeFile(JSON.stringify(content));
    await file.sync();
    await link(written, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  } finally {
    await file.close();
    await rm(written, { force: true });
  }
}

/** What a file says; undefined if there is none, or if the disk lost its content. */
async function readJson<Found>(path: string): Promise<Found | undefined> {
  try {
    return JSON.parse(await readFile(path, "utf8")) as Found;
  } catch (error) {
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
