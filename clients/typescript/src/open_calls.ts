import { messageOf } from "./errors.ts";
import type { SessionEvent } from "./events.ts";
import type { PendingCall, ResumedFrame, ToolCallFrame } from "./protocol.ts";

interface OpenCallsOptions {
  /** The unit of the pauses between tries to fetch arguments. */
  pauseMs: number;
  show(event: SessionEvent): void;
  /** Executes a call, if this client executes any. */
  execute(call: ToolCallFrame): void;
  /** Fetches the arguments of a call. */
  complete(call: ToolCallFrame): Promise<ToolCallFrame>;
}

/** The calls that wait for a human or are executed: shows each once, and executes only those that are open. */
export class OpenCalls {
  readonly byId = new Map<string, ToolCallFrame>();
  readonly #options: OpenCallsOptions;
  /** While it is not known which calls are open: calls to execute, and calls that came again. */
  readonly #held = new Map<string, ToolCallFrame>();
  readonly #repeated = new Map<string, ToolCallFrame>();
  #resuming = true;

  constructor(options: OpenCallsOptions) {
    this.#options = options;
  }

  /** There is a new connection. */
  connected(): void {
    this.#held.clear();
    this.#repeated.clear();
    this.#resuming = true;
  }

  /** `resumed` will say which calls are open. */
  resuming(): void {
    this.#resuming = true;
  }

  /** A call comes: show and execute it, once each. */
  take(call: ToolCallFrame): void {
    const known = this.byId.get(call.call_id);
    let isNew = known?.requires_approval !== call.requires_approval;
    if (call.requires_approval && known && !known.requires_approval) return; // a repeat that comes late
    if (known?.arguments && !isNew) {
      call = call.arguments ? call : { ...call, arguments: known.arguments };
      const differs = JSON.stringify(call.arguments) !== JSON.stringify(known.arguments) || call.tool_name !== known.tool_name;
      isNew = call.requires_approval && differs; // then it is another question
    }
    this.byId.set(call.call_id, call);
    if (!call.arguments && call.payload_url) void this.#fetchArguments(call, isNew);
    else this.#see(call, isNew);
  }

  /** A call comes again: it may be settled, or this connection may be the executor now. */
  takeRepeated(call: ToolCallFrame): void {
    if (this.#resuming && !this.byId.has(call.call_id)) this.#repeated.set(call.call_id, call);
    else this.take(call);
  }

  /** Calls of `session_info`: those that wait for a human are shown to a client that has not seen them. */
  takePending(pending: readonly PendingCall[]): void {
    for (const { state, ...call } of pending) {
      if (state !== "awaiting_approval" || !(call.arguments || call.payload_url) || this.byId.has(call.call_id)) continue;
      this.#repeated.set(call.call_id, { type: "tool_call", requires_approval: true, ...call });
    }
  }

  /** The server says which calls are open, of those up to a `seq`. Gives their states. */
  resumed({ last_seq: lastSeq, open_calls: calls }: ResumedFrame): Map<string, string> {
    this.#resuming = false;
    const open = new Map<string, string>(calls.map((call) => [call.call_id, call.state]));
    for (const call of this.#held.values()) {
      if (open.get(call.call_id) === "executing" || (call.seq ?? 0) > lastSeq) this.#options.execute(call);
    }
    this.#held.clear();
    for (const call of this.#repeated.values()) if (open.has(call.call_id)) this.take(call);
    this.#repeated.clear();
    for (const [callId, call] of this.byId) {
      if (!open.has(callId) && (call.seq ?? 0) <= lastSeq) this.byId.delete(callId);
    }
    return open;
  }

  settled(callId: string): void {
    this.byId.delete(callId);
  }

  turnEnded(turnId: string): void {
    for (const [callId, call] of this.byId) if (call.turn_id === turnId) this.byId.delete(callId);
  }

  /** Fetch a call's arguments; after three failures, it has none. */
  async #fetchArguments(call: ToolCallFrame, isNew: boolean): Promise<void> {
    for (const pause of [1, 4, 0]) {
      try {
        call = await this.#options.complete(call);
        break;
      } catch (error) {
        const why = `The arguments of ${call.tool_name} could not be fetched: ${messageOf(error)}`;
        if (pause) await new Promise((resolve) => setTimeout(resolve, pause * this.#options.pauseMs));
        else this.#options.show({ type: "ignored", why });
      }
    }
    if (this.byId.has(call.call_id)) this.byId.set(call.call_id, call);
    this.#see(call, isNew);
  }

  #see(call: ToolCallFrame, isNew: boolean): void {
    if (isNew) this.#options.show(call);
    if (call.requires_approval || call.execute === false) return;
    if (this.#resuming) this.#held.set(call.call_id, call);
    else this.#options.execute(call);
  }
}
