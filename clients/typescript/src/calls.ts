import { ToolError, messageOf } from "./errors.ts";
import type { SessionEvent } from "./events.ts";
import type { Journal, Outcome } from "./journal.ts";
import { MOST_BYTES } from "./options.ts";
import type { ErrorCode, ErrorFrame, ToolCallFrame, ToolResultFrame } from "./protocol.ts";
import type { CallContext, Tool } from "./tools.ts";

/** Time between two pieces of a call's output on the wire; the user of this client sees every piece at once. */
const PIECE_MS = 2_000;
/** Characters of such a piece: the newest ones. */
const PIECE_CHARS = 4_000;
/** Time after which a result that the server has not acknowledged is checked. */
const UNSURE_MS = 10_000;
/** Time between two looks at a call that another client executes. */
const LOOK_MS = 1_000;
/** How long running calls may take to stop when the session is closed. */
const STOP_MS = 5_000;

const INTERRUPTED =
  "The client stopped while it was executing this call. It may have had all, some or none of its effects, and it is " +
  "not executed again: look at the workspace before you repeat it.";

export interface CallsOptions {
  tools: ReadonlyMap<string, Tool>;
  journal: Journal;
  /** Sends a frame on the current connection, and drops it if there is none. */
  send(frame: ToolResultFrame): void;
  /** Shows an event to the user. */
  show(event: SessionEvent): void;
  /** Ends the session with an error. */
  fail(error: unknown): void;
  /** Why a call must not be executed, or nothing. */
  refusal(call: ToolCallFrame): Promise<Outcome | undefined>;
  /** Whether it is known which calls are open. */
  isOnline(): boolean;
}

/** Executes the calls of a session, each at most once, and sends each result until the server has settled the call. */
export class Calls {
  readonly #options: CallsOptions;
  readonly #running = new Map<string, Promise<void>>();
  /** Those that a tool has, with what aborts them. */
  readonly #executing = new Map<string, AbortController>();
  /** Unsettled results of this client, by the time at which they were sent. */
  readonly #sentAt = new Map<string, number>();
  /** Those about which a human is being asked. */
  readonly #asking = new Set<string>();
  /** Those that the server has given to this connection. */
  readonly #came = new Set<string>();
  /** Settled while a tool or a human has them. */
  readonly #unwanted = new Set<string>();
  #closed = false;

  constructor(options: CallsOptions) {
    this.#options = options;
  }

  /** Whether a tool has a call. */
  get areRunning(): boolean {
    return this.#executing.size > 0;
  }

  /** There is a new connection: the server gives it the calls that it is to execute. */
  connected(): void {
    this.#came.clear();
  }

  /** Execute a call, or send its result again if it was executed before. */
  take(call: ToolCallFrame): void {
    this.#came.add(call.call_id);
    if (this.#closed || this.#running.has(call.call_id)) return;
    const done = this.#handle(call)
      .catch((error) => this.#options.fail(error))
      .finally(() => this.#running.delete(call.call_id));
    this.#running.set(call.call_id, done);
  }

  /**
   * Compare with the server's open calls, which are all those up to `lastSeq`: states by `call_id`. Results that the
   * server does not have are sent again.
   */
  async reconcile(lastSeq: number, open: ReadonlyMap<string, string>): Promise<void> {
    for (const entry of await this.#options.journal.unsettled()) {
      const state = open.get(entry.callId);
      if (state === undefined && entry.seq <= lastSeq) await this.settled(entry.callId);
      else if (state !== "executing" || this.#running.has(entry.callId)) continue;
      else if (entry.outcome) this.#deliver(entry.callId, entry.outcome);
      else if (entry.interrupted) await this.#interrupted(entry.callId);
    }
  }

  /** The server has settled a call: stop it if it runs. */
  async settled(callId: string): Promise<void> {
    const running = this.#executing.get(callId);
    if (running) {
      this.#unwanted.add(callId);
      running.abort();
    } else if (this.#asking.has(callId)) {
      this.#unwanted.add(callId);
    } else {
      await this.#settle(callId);
    }
  }

  /** The server refused a frame about a call. */
  async refused(error: ErrorFrame): Promise<void> {
    const callId = error.call_id;
    if (callId === undefined || !(this.#sentAt.has(callId) || this.#executing.has(callId))) return;
    if (error.error_code === "INVALID_CALL_ID") {
      await this.settled(callId);
    } else if (this.#sentAt.has(callId) && !error.retryable && error.details["field"] !== "payload_ref") {
      // The result itself is not acceptable: let the model know instead of waiting for the deadline.
      await this.#settle(callId);
      this.#options.send(result(callId, failed("EXECUTION_FAILED", `The result was refused: ${error.message}`)));
    }
  }

  /** Whether results were sent so long ago that the server must be asked for its open calls; true once in 10 s. */
  mustCheck(now: number): boolean {
    if (![...this.#sentAt.values()].some((at) => now - at > UNSURE_MS)) return false;
    for (const callId of this.#sentAt.keys()) this.#sentAt.set(callId, now);
    return true;
  }

  /** Stop running calls, record and send their outcomes. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const running of this.#executing.values()) running.abort();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const patience = new Promise((resolve) => (timer = setTimeout(resolve, STOP_MS)));
    await Promise.race([Promise.all(this.#running.values()), patience]);
    clearTimeout(timer);
  }

  async #handle(call: ToolCallFrame): Promise<void> {
    const { journal } = this.#options;
    const refusal = await this.#refusal(call);
    if (refusal === "unwanted") return;
    for (;;) {
      const claim = await journal.begin(call.call_id, call.seq ?? 0);
      if (claim.state === "new") {
        const outcome = await this.#execute(call, refusal);
        if (this.#unwanted.delete(call.call_id)) return this.#settle(call.call_id);
        return this.#deliver(call.call_id, outcome);
      }
      if (claim.state === "finished") return this.#deliver(call.call_id, claim.outcome);
      if (claim.state === "interrupted") return this.#interrupted(call.call_id);
      await wait(LOOK_MS);
      if (this.#closed) return;
    }
  }

  /** Why a call must not be executed; `unwanted`: this connection is not to answer it any more. */
  async #refusal(call: ToolCallFrame): Promise<Outcome | undefined | "unwanted"> {
    const { call_id: callId } = call;
    if (!call.arguments || !this.#options.tools.has(call.tool_name)) return undefined;
    this.#asking.add(callId);
    const refusal = await this.#options.refusal(call).finally(() => this.#asking.delete(callId));
    while (!this.#closed && !this.#options.isOnline()) await wait(50);
    return this.#unwanted.delete(callId) || this.#closed || !this.#came.has(callId) ? "unwanted" : refusal;
  }

  /** Execute a call for the first and only time, or not. Gives the outcome that the journal has. */
  async #execute(call: ToolCallFrame, refusal: Outcome | undefined): Promise<Outcome> {
    const { journal, show } = this.#options;
    const { call_id: callId, tool_name: toolName } = call;
    const aborting = new AbortController();
    this.#executing.set(callId, aborting);
    if (this.#closed) aborting.abort();
    if (!refusal) show({ type: "call_started", callId, toolName, arguments: call.arguments ?? {} });
    let outcome: Outcome;
    try {
      const ended = refusal ?? checked(await this.#outcome(call, aborting.signal));
      outcome = await journal.finish(callId, ended);
    } finally {
      this.#executing.delete(callId);
    }
    show({ type: "call_finished", callId, toolName, outcome });
    return outcome;
  }

  async #outcome(call: ToolCallFrame, signal: AbortSignal): Promise<Outcome> {
    const tool = this.#options.tools.get(call.tool_name);
    if (!call.arguments) return failed("EXECUTION_FAILED", "The client could not fetch the call's arguments");
    if (!tool) return failed("TOOL_NOT_FOUND", `This client does not execute ${call.tool_name}`);
    const pieces = new Pieces((piece) => this.#options.send({ ...result(call.call_id, piece), ...piece }));
    const context: CallContext = {
      callId: call.call_id,
      toolName: call.tool_name,
      deadline: call.deadline,
      signal,
      output: ({ stdout = "", stderr = "" }) => {
        this.#options.show({ type: "call_output", callId: call.call_id, stdout, stderr });
        pieces.add(stdout, stderr);
      },
    };
    try {
      return { result: (await tool(call.arguments, context)) ?? null };
    } catch (error) {
      if (error instanceof ToolError) return failed(error.code, error.message);
      if (signal.aborted) return failed("CANCELLED", "The call was cancelled");
      return failed("EXECUTION_FAILED", messageOf(error));
    } finally {
      pieces.stop();
    }
  }

  async #interrupted(callId: string): Promise<void> {
    this.#deliver(callId, await this.#options.journal.finish(callId, failed("EXECUTION_FAILED", INTERRUPTED)));
  }

  #deliver(callId: string, outcome: Outcome): void {
    this.#sentAt.set(callId, Date.now());
    this.#options.send(result(callId, outcome));
  }

  async #settle(callId: string): Promise<void> {
    this.#sentAt.delete(callId);
    await this.#options.journal.settle(callId);
  }
}

type Piece = Pick<ToolResultFrame, "result" | "offset" | "partial">;

/** Sends a running call's output in pieces, each of which restarts the call's deadline. */
class Pieces {
  readonly #send: (piece: Piece) => void;
  #stdout = "";
  #stderr = "";
  #total = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #stopped = false;

  constructor(send: (piece: Piece) => void) {
    this.#send = send;
  }

  add(stdout: string, stderr: string): void {
    this.#total += stdout.length + stderr.length;
    this.#stdout = (this.#stdout + stdout).slice(-PIECE_CHARS);
    this.#stderr = (this.#stderr + stderr).slice(-PIECE_CHARS);
    if (!this.#stopped) this.#timer ??= setTimeout(() => this.#flush(), PIECE_MS);
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  #flush(): void {
    this.#timer = undefined;
    const offset = this.#total - this.#stdout.length - this.#stderr.length;
    const piece = { stdout: this.#stdout, stderr: this.#stderr, exit_code: null };
    this.#stdout = this.#stderr = "";
    this.#send({ result: piece, offset, partial: true });
  }
}

function result(callId: string, outcome: Outcome): ToolResultFrame {
  return { type: "tool_result", call_id: callId, ...outcome };
}

function failed(code: ErrorCode, message: string): Outcome {
  return { error: { code, message } };
}

/** The outcome as the journal and the server will read it, or an error in its place if it is no JSON or too large. */
function checked(outcome: Outcome): Outcome {
  let text: string;
  try {
    text = JSON.stringify(outcome);
  } catch {
    return failed("EXECUTION_FAILED", "The tool's result is not JSON");
  }
  const size = new TextEncoder().encode(text).length;
  if (size > MOST_BYTES - 1_000) return failed("PAYLOAD_TOO_LARGE", `The result has ${size} bytes; ${MOST_BYTES} is the most`);
  const read = JSON.parse(text) as Outcome;
  return "result" in read || "error" in read ? read : { result: null };
}

function wait(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
