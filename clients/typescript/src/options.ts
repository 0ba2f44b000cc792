import type { OpenJournal } from "./journal.ts";
import type { WebSocketConstructor } from "./link.ts";
import type { IsPublic } from "./payload_hosts.ts";
import type { Capabilities, ToolCallFrame } from "./protocol.ts";
import type { Token } from "./tokens.ts";
import type { CatalogueTools, OwnTool } from "./tools.ts";
import type { SessionEvent } from "./events.ts";
import type { WireEntry } from "./wire.ts";

/** Frames above this size (bytes of JSON) are sent by reference (docs/protocol.md, "Large frames"). */
export const INLINE_BYTES = 30_000;
/** The largest frame, in either direction. */
export const MOST_BYTES = 10_000_000;

export type Fetch = typeof globalThis.fetch;

/** How long a session waits, in milliseconds. */
export interface Timing {
  /** For a connection, and again until it has replayed everything. */
  openMs: number;
  /** Until a frame without a reply is sent again. */
  repeatMs: number;
  /** Of silence until a ping, while something goes on. */
  pingMs: number;
  /**
   * The same while nothing does, less up to a tenth, so that many clients do not ping at once. A ping is most of what an
   * idle connection costs; API Gateway closes a silent one after ten minutes.
   */
  idlePingMs: number;
  /** Until an idle connection is replaced; API Gateway closes each after two hours. */
  lifetimeMs: number;
  /** The shortest pause after a failure; pauses grow up to `longestPauseMs`. */
  pauseMs: number;
  longestPauseMs: number;
  /** Between two looks at the clock. */
  tickMs: number;
}

export interface SessionOptions {
  /** The server: `ws://host[:port]` for the local cloud, the stack's output `wss://…/stage`, or with `{session_id}`. */
  url: string;
  /** The stack's output `RestUrl`; the local cloud does not need it. */
  restUrl?: string | undefined;
  /** The conversation; without, a new one. */
  sessionId?: string | undefined;
  /** A JWT, or a function that gives the newest one: it is called before each connection, and before a token expires. */
  token?: Token | undefined;
  /** Send the token also where others can read it on the way: over `ws` or `http` to another machine. */
  insecureToken?: boolean | undefined;
  /** The tools of the catalogue that this client executes. */
  tools?: CatalogueTools | undefined;
  /** The client's own tools, which the agent may call beside those of the catalogue. */
  ownTools?: OwnTool[] | undefined;
  /**
   * Whether a call is executed that may change something and that nobody has decided about in this client: another
   * window, a program over HTTP, a rule or the session's mode has approved it, or nobody. Ask your user, and remember
   * the answer for this server and folder only. Without, such calls are refused.
   */
  decidedElsewhere?: boolean | ((call: ToolCallFrame) => boolean | Promise<boolean>) | undefined;
  /** This client never executes calls: another connection does. */
  viewer?: boolean | undefined;
  /** The program, for the operator's logs. */
  client?: { name: string; version: string } | undefined;
  /** Where commands run; without, no command can be allowed for good. */
  platform?: "linux" | "macos" | "windows" | undefined;
  /** Further capabilities of `hello`. */
  capabilities?: Capabilities & Record<string, unknown> | undefined;
  /** Further fields of `hello`. */
  hello?: Record<string, unknown> | undefined;
  /**
   * Where executed calls are recorded. Without: IndexedDB in browsers, `~/.local/state/codelab` in Node, and else the
   * memory, which does not survive the page or process.
   */
  journal?: OpenJournal | undefined;
  /** Frames after this one are shown; without, those after the last finished turn that the journal knows. */
  lastSeq?: number | undefined;
  /** The WebSocket to use, such as that of `ws` with Node 20. */
  WebSocket?: WebSocketConstructor | undefined;
  fetch?: Fetch | undefined;
  /**
   * Whether all addresses of a host are public. Without: in Node, as the system resolves it; a browser resolves no
   * names for a page, so only hosts that are addresses count there.
   */
  isPublic?: IsPublic | undefined;
  timing?: Partial<Timing> | undefined;
  /** Called for each event from the very first, as by `on("*", …)`. */
  onEvent?: ((event: SessionEvent) => void) | undefined;
  /** Called for everything on the wire from the very first, as by `wire.on(…)`. */
  onWire?: ((entry: WireEntry) => void) | undefined;
}
