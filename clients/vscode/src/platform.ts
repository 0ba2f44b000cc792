import type { CallContext, SessionOptions, ToolResults } from "@codelab/client";
import type { UsersNotes } from "./notes.ts";

/** Runs a command in a folder. Gives its result; what it writes goes to `context` as it comes. */
export interface CommandRunner {
  run(command: string, folder: string, context: CallContext): Promise<ToolResults["run_command"]>;
  dispose(): void;
}

/** Reads the git repository that a folder is in. Paths are below the folder. */
export interface GitReader {
  diff(folder: string, path: string, isStaged: boolean, context: CallContext): Promise<ToolResults["git.diff"]>;
  status(folder: string, path: string, context: CallContext): Promise<ToolResults["git.status"]>;
  log(folder: string, path: string | undefined, limit: number, context: CallContext): Promise<ToolResults["git.log"]>;
}

/** What differs between the desktop and the Web. */
export interface Platform extends Pick<SessionOptions, "WebSocket" | "platform"> {
  /** Undefined: commands cannot be run. */
  commands(): CommandRunner | undefined;
  /** Undefined: there is no git. */
  readonly git?: GitReader;
  /** Undefined: there is no place for the user's own notes. */
  readonly notes?: UsersNotes;
  /** What the model is told about the machine. */
  readonly os: string;
  readonly shell: string;
}
