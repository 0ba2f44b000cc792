/** The extension in VS Code for the Web, which has no processes. */

import type * as vscode from "vscode";
import { activateOn } from "./extension.ts";
import type { Platform } from "./platform.ts";

const web: Platform = { commands: () => undefined, os: "none: an editor in a browser", shell: "none: no commands can be run" };

export function activate(context: vscode.ExtensionContext) {
  return activateOn(context, web);
}
