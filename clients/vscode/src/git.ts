import { type CallContext, ToolError, type ToolResults } from "@codelab/client";
import { execFile } from "node:child_process";
import * as vscode from "vscode";
import { names } from "../../web/src/workspace/paths.ts";
import { environment } from "./commands.ts";
import type { GitReader } from "./platform.ts";

type Status = ToolResults["git.status"];

const DIFF_BYTES = 5_000_000;
const MOST_FILES = 5_000;
const MESSAGE_CHARS = 5_000;
const ERROR_CHARS = 2_000;
/** What a repository's settings may name runs no program here, and reaches no other machine. */
const HARMLESS = ["core.fsmonitor=false", "core.hooksPath=/dev/null", "core.quotePath=false", "diff.external=", "log.showSignature=false"];
const ENVIRONMENT = { GIT_OPTIONAL_LOCKS: "0", GIT_NO_LAZY_FETCH: "1", GIT_ALLOW_PROTOCOL: "none", GIT_TERMINAL_PROMPT: "0", GIT_PAGER: "cat", LC_ALL: "C" };
const STATES: Record<string, string> = { A: "added", C: "added", D: "deleted", R: "renamed" };

/** Reads the git repository that a folder is in, by the user's git. */
export class UsersGit implements GitReader {
  async diff(folder: string, path: string, isStaged: boolean, { signal }: CallContext): Promise<ToolResults["git.diff"]> {
    const options = ["--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=all", "--relative", "--src-prefix=a/", "--dst-prefix=b/"];
    const diff = await git(folder, ["diff", ...options, ...(isStaged ? ["--cached"] : []), "--", placed(path)], signal);
    if (Buffer.byteLength(diff) > DIFF_BYTES) throw new ToolError("GIT_ERROR", `The diff has more than ${DIFF_BYTES} bytes; name a path`);
    return { diff };
  }

  async status(folder: string, path: string, { signal }: CallContext): Promise<Status> {
    const options = ["--porcelain=v2", "-z", "--branch", "--untracked-files=all", "--ignore-submodules=all"];
    const records = (await git(folder, ["status", ...options, "--", placed(path)], signal)).split("\0");
    const prefix = (await git(folder, ["rev-parse", "--show-prefix"], signal)).replace(/\n$/, "");
    return readStatus(records, prefix);
  }

  async log(folder: string, path: string | undefined, limit: number, { signal }: CallContext): Promise<ToolResults["git.log"]> {
    const below = path === undefined ? [] : ["--", placed(path)];
    const options = ["-z", "--no-show-signature", "--no-color", `--max-count=${limit}`, "--format=%H%x00%an%x00%aI%x00%B"];
    const fields = (await git(folder, ["log", ...options, ...below], signal, /does not have any commits/)).replace(/\0$/, "").split("\0");
    const commits: ToolResults["git.log"]["commits"] = [];
    for (let at = 0; at + 3 < fields.length; at += 4) {
      const [hash, author, date, message] = fields.slice(at, at + 4) as [string, string, string, string];
      commits.push({ hash, author, date, message: message.replace(/\n+$/, "").slice(0, MESSAGE_CHARS) });
    }
    return { commits };
  }
}

/** The files of `git status --porcelain=v2 -z --branch` that are below a folder of the repository. */
export function readStatus(records: readonly string[], prefix: string): Status {
  const files: Status["files"] = [];
  let branch = "";
  const add = (path: string, state: string, staged: boolean) => {
    if (path.startsWith(prefix)) files.push({ path: path.slice(prefix.length), status: STATES[state] ?? (state === "?" ? "untracked" : "modified"), staged });
  };
  for (let at = 0; at < records.length; at++) {
    const record = records[at]!;
    const kind = record[0]!;
    const fieldCount = { 1: 8, 2: 9, u: 10 }[kind];
    if (record.startsWith("# branch.head ")) branch = record.slice("# branch.head ".length);
    else if (kind === "?") add(record.slice(2), "?", false);
    else if (fieldCount) {
      const fields = record.split(" ");
      const path = fields.slice(fieldCount).join(" ");
      if (kind === "2") at++; // the old name
      [...fields[1]!].forEach((state, place) => state !== "." && add(path, state, place === 0));
    }
  }
  return { branch, files: files.slice(0, MOST_FILES), ...(files.length > MOST_FILES && { truncated: true }) };
}

/** A path below the folder, as git gets it. Throws a ToolError for one that leads out of it. */
function placed(path: string): string {
  return names(path).join("/") || ".";
}

/** What git writes. `empty`: an error that means that there is nothing. */
function git(folder: string, args: readonly string[], signal: AbortSignal, empty?: RegExp): Promise<string> {
  const configured = vscode.workspace.getConfiguration("git").get<unknown>("path");
  const program = typeof configured === "string" && configured ? configured : "git";
  // Not in the folder: Windows would look there for the program.
  const all = ["-C", folder, "--literal-pathspecs", "--no-pager", ...HARMLESS.flatMap((setting) => ["-c", setting]), ...args];
  return new Promise((resolve, reject) => {
    execFile(program, all, { env: ownEnvironment(), maxBuffer: 2 * DIFF_BYTES, signal, windowsHide: true }, (error, stdout, stderr) => {
      if (!error || empty?.test(stderr)) return resolve(stdout);
      if (/not a git repository/i.test(stderr)) return reject(new ToolError("GIT_NOT_INITIALIZED", "The workspace is not a git repository"));
      const why = (error as NodeJS.ErrnoException).code === "ENOENT" ? "git is not installed" : stderr.trim() || error.message;
      reject(new ToolError("GIT_ERROR", why.slice(0, ERROR_CHARS)));
    });
  });
}

/** The editor's environment without what would show git another repository. */
function ownEnvironment(): NodeJS.ProcessEnv {
  const others = Object.entries(environment()).filter(([name]) => !/^GIT_/i.test(name));
  return { ...Object.fromEntries(others), ...ENVIRONMENT };
}
