/** A skeleton of an IDE client: ask an agent, see what it wants to do, and let it read and write this workspace. */

import { ToolError, connect, type CatalogueTools, type Session, type ToolCallFrame } from "@codelab/client";
import * as vscode from "vscode";

const { fs } = vscode.workspace;
const PROPOSED = "codelab-proposed";
const HIDDEN = /(?![ \n])[\p{Default_Ignorable_Code_Point}\p{C}\p{Z}\u2800]/gu; // nobody approves what they cannot see
const visible = (text: string): string => text.replace(HIDDEN, (char) => `<U+${char.codePointAt(0)!.toString(16)}>`);
const DECODER = new TextDecoder("utf-8", { fatal: true });

let session: Session | undefined;
let opening: Promise<Session> | undefined;
const proposed = new Map<string, string>();

export function activate(context: vscode.ExtensionContext): void {
  const output = vscode.window.createOutputChannel("CodeLab", "markdown");
  const command = (name: string, run: () => unknown): vscode.Disposable =>
    vscode.commands.registerCommand(`codelab.${name}`, async () => {
      try {
        await run();
      } catch (error) {
        await vscode.window.showErrorMessage(error instanceof Error ? error.message : String(error));
      }
    });
  context.subscriptions.push(
    output,
    vscode.workspace.registerTextDocumentContentProvider(PROPOSED, {
      provideTextDocumentContent: (uri) => proposed.get(uri.query) ?? "",
    }),
    command("ask", async () => {
      const text = await vscode.window.showInputBox({ prompt: "What shall the agent do?", ignoreFocusOut: true });
      if (!text) return;
      const open = await opened(context, output);
      output.show(true);
      output.append(`\n\n**› ${text}**\n\n`);
      await open.prompt(text).ended;
    }),
    command("stop", () => session?.cancel()),
    command("rules", async () => {
      const open = await opened(context, output);
      const items = (await open.rules()).map((rule) => ({
        label: `${rule.decision} ${rule.tool_name} ${rule.covers}`,
        description: rule.scope === "user" ? "in all sessions" : "in this session",
        id: rule.rule_id,
      }));
      const chosen = await vscode.window.showQuickPick(items, { title: "Remembered decisions: choose one to revoke it" });
      if (chosen) await open.revoke(chosen.id);
    }),
    command("token", async () => {
      const token = await vscode.window.showInputBox({ prompt: "Token (empty: none)", password: true });
      if (token) await context.secrets.store("token", token);
      else if (token === "") await context.secrets.delete("token");
    }),
    command("restart", async () => {
      await context.workspaceState.update("session", undefined);
      await deactivate();
    }),
  );
}

export async function deactivate(): Promise<void> {
  const closing = session;
  session = opening = undefined;
  await closing?.close();
}

/** The open session; the first question opens it. The same workspace continues the same conversation. */
function opened(context: vscode.ExtensionContext, output: vscode.OutputChannel): Promise<Session> {
  const settings = vscode.workspace.getConfiguration("codelab");
  opening ??= connect({
    url: settings.get<string>("url", ""),
    restUrl: settings.get<string>("restUrl", ""),
    sessionId: context.workspaceState.get<string>("session"),
    token: async () => (await context.secrets.get("token")) ?? "",
    client: { name: "vscode-example", version: "0.1.0" },
    tools,
    decidedElsewhere: (call) => runsHere(context, settings.get<string>("url", ""), call),
  }).then(
    async (open) => {
      session = open;
      await context.workspaceState.update("session", open.sessionId);
      open.on("assistant_message", (message) => output.append(message.token + (message.is_final ? "\n\n" : "")));
      open.on("error", (error) => output.appendLine(`*${error.message}*`));
      open.on("busy", ({ why }) => output.appendLine(`*The server is busy: ${why}*`));
      open.on("offline", ({ why }) => output.appendLine(`*Reconnecting: ${why}*`));
      open.on("ended", () => void deactivate());
      open.on("tool_call", (call) => {
        output.appendLine(`- ${call.title ?? call.tool_name}${call.requires_approval ? " ?" : ""}`);
        if (call.requires_approval) void decide(open, call);
      });
      for (const call of open.openCalls.values()) if (call.requires_approval) void decide(open, call);
      return open;
    },
    (error: unknown) => {
      opening = undefined;
      throw error;
    },
  );
  return opening;
}

/** Ask the user about a call. The arguments are shown, because a title is shortened. */
async function decide(open: Session, call: ToolCallFrame): Promise<void> {
  const { call_id: callId, tool_name: tool, arguments: args = {}, remember } = call;
  if (tool === "write_file") {
    const uri = await inside(String(args["path"])).catch(() => undefined);
    proposed.set(callId, String(args["content"]));
    const after = vscode.Uri.from({ scheme: PROPOSED, path: uri?.path ?? "/proposed", query: callId });
    const before = uri && (await exists(uri)) ? uri : vscode.Uri.from({ scheme: PROPOSED, path: after.path, query: "none" });
    await vscode.commands.executeCommand("vscode.diff", before, after, `${String(args["path"])} (proposed)`, { preview: true });
  }
  const always = remember?.scopes.includes("session") ? [`Always: ${visible(remember.rule)}`] : [];
  const detail = visible(tool === "write_file" ? String(args["path"]) : JSON.stringify(args, undefined, 2));
  if (detail.length > 2_000) await vscode.window.showTextDocument(await vscode.workspace.openTextDocument({ content: detail }));
  const asked = { modal: true, detail: detail.length > 2_000 ? "The document that was opened shows all of it." : detail };
  const chosen = await vscode.window.showInformationMessage(`Run ${visible(tool)}?`, asked, "Yes", ...always);
  proposed.delete(callId);
  if (!open.openCalls.get(callId)?.requires_approval) return; // another window has decided meanwhile
  if (chosen === undefined) open.answer(callId, { decision: "reject" });
  else open.answer(callId, { decision: "approve", ...(chosen !== "Yes" && { remember: { scope: "session" } }) });
}

/** Ask about a call that was approved elsewhere, or by nobody. "Always" counts for this server and workspace only. */
async function runsHere(context: vscode.ExtensionContext, url: string, call: ToolCallFrame): Promise<boolean> {
  const key = `elsewhere ${url}`;
  if (context.workspaceState.get<boolean>(key)) return true;
  const detail = `It was approved elsewhere, or by nobody.\n${JSON.stringify(call.arguments, undefined, 2).slice(0, 2_000)}`;
  const always = `Always what ${url} says was approved elsewhere`;
  const chosen = await vscode.window.showWarningMessage(`Run ${call.tool_name}?`, { modal: true, detail }, "Yes", always);
  if (chosen === always) await context.workspaceState.update(key, true);
  return chosen !== undefined;
}

/** What the agent can do here. It is offered no other tools. */
const tools: CatalogueTools = {
  read_file: async ({ path }) => {
    const bytes = await fs.readFile(await inside(path)).then(undefined, () => {
      throw new ToolError("FILE_NOT_FOUND", `There is no file ${path}`);
    });
    if (bytes.length > 1_000_000) throw new ToolError("FILE_TOO_LARGE", `${path} has ${bytes.length} bytes`);
    try {
      return { content: DECODER.decode(bytes) };
    } catch {
      throw new ToolError("ENCODING_ERROR", `${path} is not a text in UTF-8`);
    }
  },
  write_file: async ({ path, content }) => {
    await fs.writeFile(await inside(path), new TextEncoder().encode(content));
    return { success: true };
  },
  list_files: async ({ path }) => {
    const found = await fs.readDirectory(await inside(path));
    return { files: found.map(([name, type]) => ({ name, type: type & vscode.FileType.Directory ? "directory" : "file" })) };
  },
};

/** A path of the workspace. Neither `..` nor a link leads out of it. */
async function inside(path: string): Promise<vscode.Uri> {
  let uri = vscode.workspace.workspaceFolders?.[0]?.uri;
  if (!uri) throw new ToolError("EXECUTION_FAILED", "No folder is open");
  for (const name of path.split("/").filter((part) => part && part !== ".")) {
    uri = vscode.Uri.joinPath(uri, name);
    const type = name === ".." || /[\\:]/.test(name) ? vscode.FileType.SymbolicLink : await typeOf(uri);
    if (type & vscode.FileType.SymbolicLink) throw new ToolError("PATH_OUTSIDE_WORKSPACE", `${path} may lead out of the workspace`);
  }
  return uri;
}

const typeOf = (uri: vscode.Uri): Promise<vscode.FileType> =>
  Promise.resolve(fs.stat(uri)).then(({ type }) => type, () => vscode.FileType.Unknown);
const exists = async (uri: vscode.Uri): Promise<boolean> => (await typeOf(uri)) !== vscode.FileType.Unknown;
