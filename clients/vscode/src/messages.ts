/** What the extension and its webview say to each other. */

import type { ActingMode } from "@codelab/client";
import type { Delta } from "./model.ts";

export type ToView =
  | { type: "delta"; delta: Delta; isWhole: boolean }
  /** The files that may be meant by the text behind an `@`. */
  | { type: "paths"; text: string; paths: readonly string[] }
  /** Put a text into the message that is being written. */
  | { type: "insert"; text: string };

export type FromView =
  /** The view is there and shows nothing. */
  | { type: "ready" }
  | { type: "prompt"; text: string }
  | { type: "stop" }
  | { type: "earlier" }
  | { type: "withdraw"; id: string }
  /** `mode`: in which a plan is carried out. */
  | { type: "approve"; id: string; remember?: "session" | "user"; mode?: ActingMode }
  | { type: "reject"; id: string; feedback: string }
  /** Show what a call would change or has changed in the editor. */
  | { type: "diff"; id: string }
  /** Open what a call proposes, to be edited. */
  | { type: "edit"; id: string }
  | { type: "open"; path: string }
  | { type: "paths"; text: string }
  | { type: "mode"; mode: string }
  | { type: "model"; model: string }
  | { type: "command"; command: "new" | "sessions" | "token" | "settings" | "reconnect" };

const FIELDS: { [Type in FromView["type"]]: readonly string[] } = {
  ready: [],
  prompt: ["text"],
  stop: [],
  earlier: [],
  withdraw: ["id"],
  approve: ["id"],
  reject: ["id", "feedback"],
  diff: ["id"],
  edit: ["id"],
  open: ["path"],
  paths: ["text"],
  mode: ["mode"],
  model: ["model"],
  command: ["command"],
};

/** A message of the webview, if it is one: what runs there draws what a model wrote. */
export function readMessage(value: unknown): FromView | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const message = value as Record<string, unknown>;
  const type = message["type"];
  if (typeof type !== "string" || !Object.hasOwn(FIELDS, type)) return undefined;
  const isWhole = FIELDS[type as FromView["type"]].every((name) => typeof message[name] === "string");
  return isWhole ? (message as unknown as FromView) : undefined;
}
