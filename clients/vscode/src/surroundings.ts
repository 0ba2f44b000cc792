import type { ConversationState } from "@codelab/client";
import { visible, visibleLine } from "../../web/src/conversation/safe.ts";
import type { Surroundings } from "./model.ts";

/** What the view shows beside the conversation. */
export function surroundings(state: ConversationState, needsToken: boolean, restriction: string): Surroundings {
  const { connection, status, title, actingMode, agent, plan, queue, info, hasEarlier } = state;
  return {
    connection: connection.state,
    trouble: troubleOf(connection),
    needsToken,
    status,
    title: visibleLine(title),
    mode: info?.mode ?? "",
    actingMode,
    model: info?.model ?? "",
    models: info?.models.map(({ name }) => name) ?? [],
    agent: visibleLine(agent),
    plan: plan.map(({ text, status: step }) => ({ text: visible(text), status: step })),
    queue: queue.map(({ id, text, isWhole }) => ({ id, text, isWhole })),
    usage: usageOf(state),
    hasEarlier,
    restriction,
  };
}

function troubleOf({ state, why = "", error, retryInMs = 0 }: ConversationState["connection"]): string {
  if (state === "offline" || state === "busy") return `${visible(why)}: next try in ${Math.ceil(retryInMs / 1000)} s`;
  return state === "ended" && error ? visible(error.message) : "";
}

function usageOf({ usage: { tokens, cost, context }, info }: ConversationState): string {
  if (!tokens) return "";
  const most = info?.limits["context_tokens"];
  const room = context !== undefined && most ? `, ${Math.round((100 * context) / most)} % of the context` : "";
  return `${tokens.toLocaleString("en")} tokens${cost === undefined ? "" : `, $${cost.toFixed(4)}`}${room}`;
}

/** The status bar's text and tooltip; `isAsking`: the agent waits for the user. */
export function statusOf(state: ConversationState): { text: string; tooltip: string; isAsking: boolean } {
  const { connection, status, approvals, title } = state;
  const isAsking = approvals.length > 0;
  const words = {
    connecting: ["$(loading~spin) CodeLab", "Connecting"],
    offline: ["$(debug-disconnect) CodeLab", "Not connected: trying again"],
    busy: ["$(debug-disconnect) CodeLab", "The server is busy: trying again"],
    ended: ["$(debug-disconnect) CodeLab", "Not connected"],
    online: isAsking
      ? [`$(question) CodeLab: ${approvals.length}`, `${approvals.length === 1 ? "A call waits" : `${approvals.length} calls wait`} for you`]
      : [status === "idle" || status === "error" ? "$(comment-discussion) CodeLab" : "$(sync~spin) CodeLab", STATUS[status]],
  }[connection.state] as [string, string];
  return { text: words[0], tooltip: title ? `${words[1]}\n${visibleLine(title)}` : words[1], isAsking: isAsking && connection.state === "online" };
}

export const STATUS: Record<ConversationState["status"], string> = {
  idle: "Ready",
  thinking: "The agent thinks",
  executing_tool: "A tool runs",
  waiting_approval: "The agent waits for you",
  error: "Something went wrong",
};
