import type { CallArguments, ToolArguments, ToolCallFrame, ToolCallFrameOf, ToolDeclaration, ToolResults } from "./protocol.ts";

/** What a tool is given beside its arguments. */
export interface CallContext {
  readonly callId: string;
  readonly toolName: string;
  /** When the call times out, in milliseconds since the epoch, by the server's clock. */
  readonly deadline: number | undefined;
  /** Aborted when the call is not wanted any more: it was cancelled or timed out, or the session is being closed. */
  readonly signal: AbortSignal;
  /** Show a piece of output. The other windows see the newest of it, and the call's deadline restarts. */
  output(piece: { stdout?: string; stderr?: string }): void;
}

/** Executes a call. Returns its result; throws a ToolError, or another error, if it fails. */
export type Tool<Arguments = Record<string, unknown>, Result = unknown> = (
  args: Arguments,
  context: CallContext,
) => Result | Promise<Result>;

/** The tools of the catalogue that this client executes (docs/tools.md). */
export type CatalogueTools = {
  [Name in keyof ToolArguments]?: Tool<ToolArguments[Name], ToolResults[Name]>;
};

/** A tool of the client's own, which the agent may call beside those of the catalogue. */
export interface OwnTool extends ToolDeclaration {
  execute: Tool;
}

/** Whether a call is one of these tools. If so, its arguments have the tool's type; a `switch` over `tool_name` tells several apart. */
export function isCallOf<Name extends keyof CallArguments>(call: ToolCallFrame, ...names: Name[]): call is ToolCallFrameOf<Name> {
  return (names as string[]).includes(call.tool_name);
}
