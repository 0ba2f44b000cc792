import type { Conversation } from "@codelab/client";
import * as vscode from "vscode";
import { visibleLine } from "../../web/src/conversation/safe.ts";
import { MODES } from "./modes.ts";

/** Sessions that are asked for at once. */
const SESSIONS = 100;

/** The user's choice among the sessions of the server: the id; undefined if none was chosen. */
export async function chooseSession({ session }: Conversation): Promise<string | undefined> {
  const { sessions } = await session.rest.sessions({ limit: SESSIONS });
  const items = sessions
    .filter(({ title }) => title !== "") // others have no message yet
    .map(({ session_id: id, title, last_activity: at }) => ({
      label: visibleLine(title),
      description: id === session.sessionId ? "open here" : new Date(at).toLocaleString(),
      id,
    }));
  return (await vscode.window.showQuickPick(items, { title: "Conversations", placeHolder: "Choose one to go on with" }))?.id;
}

export async function chooseModel({ session }: Conversation): Promise<void> {
  const { models = [], model: current } = session.info ?? {};
  const items = models.map(({ name }) => ({ label: name, description: name === current ? "answers now" : "" }));
  const chosen = await vscode.window.showQuickPick(items, { title: "The model that answers next" });
  if (chosen) await session.configure({ model: chosen.label });
}

export async function chooseMode({ session }: Conversation): Promise<void> {
  const items = MODES.map(({ mode, text }) => ({ label: text, description: mode === session.info?.mode ? "is set" : "", mode }));
  const chosen = await vscode.window.showQuickPick(items, { title: "What the agent may do" });
  if (chosen) await session.configure({ mode: chosen.mode });
}

/** List the remembered decisions, and revoke the one that is chosen. */
export async function chooseRule({ session }: Conversation): Promise<void> {
  const items = (await session.rules()).map((rule) => ({
    label: visibleLine(`${rule.decision} ${rule.tool_name} ${rule.covers}`),
    description: rule.scope === "user" ? "in all sessions" : "in this session",
    id: rule.rule_id,
  }));
  const placeHolder = items.length ? "Choose one to revoke it" : "There are none";
  const chosen = await vscode.window.showQuickPick(items, { title: "Remembered decisions", placeHolder });
  if (chosen) await session.revoke(chosen.id);
}
