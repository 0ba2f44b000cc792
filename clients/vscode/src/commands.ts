import { type CallContext, type ToolResults, ToolError } from "@codelab/client";
import { type ChildProcess, spawn } from "node:child_process";
import * as vscode from "vscode";
import { visible } from "../../web/src/conversation/safe.ts";
import { Kept } from "./kept.ts";
import type { CommandRunner } from "./platform.ts";

const IS_WINDOWS = process.platform === "win32";
export const SHELL = IS_WINDOWS ? (process.env["ComSpec"] ?? "cmd.exe") : "/bin/sh";
/** How long a command may take to stop. */
const STOP_MS = 2_000;
/** After so long, a command runs also if the editor has not shown the terminal. */
const SHOWN_MS = 5_000;
const CTRL_C = "\u0003";

/** Runs commands as the user would, without a sandbox, and shows them in a terminal of the editor; Ctrl-C there stops them. */
export class TerminalCommands implements CommandRunner {
  readonly #running = new Set<ChildProcess>();
  #terminal: vscode.Terminal | undefined;
  #write: ((text: string) => void) | undefined;

  async run(command: string, folder: string, context: CallContext): Promise<ToolResults["run_command"]> {
    await this.#show();
    this.#print(`\u001b[1m$ ${visible(command)}\u001b[0m\n`);
    const child = spawn(command, { cwd: folder, shell: SHELL, env: environment(), stdio: ["ignore", "pipe", "pipe"], detached: !IS_WINDOWS });
    this.#running.add(child);
    const stop = () => kill(child);
    context.signal.addEventListener("abort", stop);
    try {
      return await this.#result(child, context);
    } finally {
      context.signal.removeEventListener("abort", stop);
      this.#running.delete(child);
    }
  }

  dispose(): void {
    this.#stopAll();
    this.#terminal?.dispose();
  }

  #result(child: ChildProcess, context: CallContext): Promise<ToolResults["run_command"]> {
    const kept = { stdout: new Kept(), stderr: new Kept() };
    for (const stream of ["stdout", "stderr"] as const) {
      child[stream]!.setEncoding("utf8").on("data", (text: string) => {
        kept[stream].add(text);
        this.#print(text);
        context.output({ [stream]: text });
      });
    }
    return new Promise((resolve, reject) => {
      child.on("error", (error) => reject(new ToolError("EXECUTION_FAILED", error.message)));
      child.on("close", (code, signal) => {
        this.#print(`\u001b[2m${signal ? `ended by ${signal}` : `exit code ${code}`}\u001b[0m\n`);
        resolve({ stdout: kept.stdout.text, stderr: kept.stderr.text, exit_code: code ?? -1, ...(signal && { signal }) });
      });
    });
  }

  /** Show the terminal, a new one if the user has closed the last. Settles when it can be written to. */
  async #show(): Promise<void> {
    if (!this.#terminal) await this.#open();
    this.#terminal?.show(true);
  }

  #open(): Promise<void> {
    const written = new vscode.EventEmitter<string>();
    return new Promise((resolve) => {
      const opened = () => {
        this.#write = (text) => written.fire(text);
        resolve();
      };
      const pty: vscode.Pseudoterminal = {
        onDidWrite: written.event,
        open: opened,
        close: () => this.#closed(),
        handleInput: (data) => data === CTRL_C && this.#stopAll(),
      };
      this.#terminal = vscode.window.createTerminal({ name: "CodeLab", pty, isTransient: true });
      this.#terminal.show(true);
      setTimeout(resolve, SHOWN_MS);
    });
  }

  #closed(): void {
    this.#terminal = this.#write = undefined;
    this.#stopAll();
  }

  #stopAll(): void {
    for (const child of this.#running) kill(child);
  }

  #print(text: string): void {
    this.#write?.(text.replace(/\r?\n/g, "\r\n"));
  }
}

/** The editor's environment without its own variables: with those, a command's Node would behave as the editor's. */
export function environment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(ELECTRON|VSCODE)_/i.test(name)));
}

/** End a command and what it has started. */
function kill(child: ChildProcess): void {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  if (IS_WINDOWS) {
    spawn("taskkill", ["/pid", String(child.pid), "/T", "/F"], { stdio: "ignore" });
    return;
  }
  signal(child.pid, "SIGTERM");
  const timer = setTimeout(() => signal(child.pid!, "SIGKILL"), STOP_MS);
  child.once("close", () => clearTimeout(timer));
}

function signal(group: number, name: NodeJS.Signals): void {
  try {
    process.kill(-group, name);
  } catch {
    // It has ended.
  }
}
