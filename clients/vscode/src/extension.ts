/** An agent in the side bar: a conversation, and what it does to the workspace after the user has seen it. */

import * as vscode from "vscode";
import { mentionOf } from "../../web/src/conversation/suggestions.ts";
import { Agent } from "./agent.ts";
import { chooseMode, chooseModel, chooseRule, chooseSession } from "./choices.ts";
import { chooseNote, remember } from "./notes.ts";
import { Mentions, pathIn } from "./mentions.ts";
import type { Platform } from "./platform.ts";
import { Proposals } from "./proposals.ts";
import { Questions } from "./questions.ts";
import { server, Tokens } from "./settings.ts";
import { statusOf } from "./surroundings.ts";
import { VIEW, ViewProvider } from "./view_provider.ts";

export function activateOn(context: vscode.ExtensionContext, platform: Platform): { agent: Agent } {
  const tokens = new Tokens(context.secrets);
  const proposals = new Proposals();
  const questions = new Questions(proposals, context.workspaceState);
  const agent = new Agent({ context, platform, tokens, proposals, questions });
  const mentions = new Mentions();
  const view = new ViewProvider(agent, mentions, context.extensionUri);
  const reopen = () => (agent.conversation ? agent.open(agent.conversation.session.sessionId) : agent.resume());

  context.subscriptions.push(
    agent,
    proposals,
    mentions,
    view,
    statusBar(agent),
    vscode.window.registerWebviewViewProvider(VIEW, view),
    command("new", () => agent.open()),
    command("sessions", async () => {
      const sessionId = await chooseSession(await opened(agent));
      if (sessionId !== undefined) await agent.open(sessionId);
    }),
    command("model", async () => chooseModel(await opened(agent))),
    command("mode", async () => chooseMode(await opened(agent))),
    command("rules", async () => chooseRule(await opened(agent))),
    command("remember", (text) => remember(agent.kept, typeof text === "string" ? text : "")),
    command("notes", () => chooseNote(agent.kept)),
    command("stop", () => agent.conversation?.cancel()),
    command("reconnect", reopen),
    command("token", async () => {
      if (await tokens.ask(server())) await reopen();
    }),
    command("mention", async (uri) => {
      const [folder] = vscode.workspace.workspaceFolders ?? [];
      const path = folder && uri instanceof vscode.Uri ? pathIn(folder, uri) : undefined;
      if (path !== undefined) await view.insert(`${mentionOf(path)} `);
    }),
    command("approve", async () => {
      const callId = proposals.active;
      if (callId !== undefined) await agent.reviews?.approve(callId);
    }),
    command("reject", async () => {
      const callId = proposals.active;
      const feedback = callId === undefined ? undefined : await vscode.window.showInputBox({ prompt: "What should the agent do instead? (optional)" });
      if (callId !== undefined && feedback !== undefined) await agent.reviews?.reject(callId, feedback);
    }),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("codelab") && agent.conversation) report(agent.resume());
    }),
    vscode.workspace.onDidGrantWorkspaceTrust(() => agent.conversation && report(reopen())),
    vscode.workspace.onDidChangeWorkspaceFolders(() => agent.conversation && report(reopen())),
  );
  return { agent };
}

/** The open conversation; it is opened if there is none. */
async function opened(agent: Agent) {
  if (!agent.conversation) await agent.resume();
  return agent.conversation!;
}

function statusBar(agent: Agent): vscode.Disposable {
  const item = vscode.window.createStatusBarItem("codelab", vscode.StatusBarAlignment.Right);
  item.name = "CodeLab";
  item.command = `${VIEW}.focus`;
  const draw = () => {
    const { text, tooltip, isAsking } = agent.conversation ? statusOf(agent.state) : { text: "$(comment-discussion) CodeLab", tooltip: "Open the conversation", isAsking: false };
    item.text = text;
    item.tooltip = tooltip;
    item.backgroundColor = isAsking ? new vscode.ThemeColor("statusBarItem.warningBackground") : undefined;
  };
  draw();
  item.show();
  return vscode.Disposable.from(item, agent.onDidChange(draw));
}

function command(name: string, run: (argument?: unknown) => unknown): vscode.Disposable {
  return vscode.commands.registerCommand(`codelab.${name}`, (argument?: unknown) => report(Promise.resolve().then(() => run(argument))));
}

/** Tell the user what went wrong. */
async function report(work: Promise<unknown>): Promise<void> {
  try {
    await work;
  } catch (error) {
    void vscode.window.showErrorMessage(error instanceof Error ? error.message : String(error));
  }
}
