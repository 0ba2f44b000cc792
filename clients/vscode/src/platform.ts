import type { CallContext, SessionOptions, ToolResults } from "@codelab/client";
import type { UsersNotes } from "./notes.ts";

/** Runs a command in a folder. Gives its result; what it writes goes to `context` as it comes. */
export interface CommandRunner {
  run(command: string, folder: string, context: CallContext): Promise<ToolResults["run_command"]>;
  dispose(): void;
}

/** What differs between the desktop and the Web. */
export interface Platform extends Pick<SessionOptions, "WebSocket" | "platform"> {
  /** Undefined: commands cannot be run. */
  commands(): CommandRunner | undefined;
  /** Undefined: there is no place for the user's own notes. */
  readonly notes?: UsersNotes;
  /** What the model is told about the machine. */
  readonly os: string;
  readonly shell: string;
}
