/** The extension in VS Code on the desktop and in its servers. */

import type { SessionOptions } from "@codelab/client";
import { release } from "node:os";
import type * as vscode from "vscode";
import { WebSocket } from "ws";
import { SHELL, TerminalCommands } from "./commands.ts";
import { activateOn } from "./extension.ts";
import { UsersGit } from "./git.ts";
import type { Platform } from "./platform.ts";
import { usersNotes } from "./users_notes.ts";

const PLATFORMS: Record<string, SessionOptions["platform"]> = { linux: "linux", darwin: "macos", win32: "windows" };

const desktop: Platform = {
  // Node has none of its own before version 22, which older editors do not have.
  WebSocket: WebSocket as unknown as NonNullable<SessionOptions["WebSocket"]>,
  platform: PLATFORMS[process.platform],
  commands: () => new TerminalCommands(),
  git: new UsersGit(),
  notes: usersNotes(),
  os: `${process.platform} ${release()}`,
  shell: SHELL,
};

export function activate(context: vscode.ExtensionContext) {
  return activateOn(context, desktop);
}
