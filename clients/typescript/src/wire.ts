/**
 * One thing that happened between the client and the server, in the order in which it happened.
 *
 * `open` and `close` are those of a connection; `in` and `out` are frames; `get` and `put` are transfers of large
 * frames over HTTP.
 */
export interface WireEntry {
  readonly kind: "open" | "close" | "in" | "out" | "get" | "put";
  /** Milliseconds since the epoch. */
  readonly at: number;
  /** The connection's number: 1, 2, 3 … */
  readonly connection: number;
  /** Bytes of the frame or the transfer, in UTF-8. */
  readonly bytes: number;
  /** The frame's JSON. A token in it is replaced by `…`. With `close`: the code and the reason. */
  readonly text: string;
  /** The parsed frame; undefined if it is not a JSON object. */
  readonly frame?: Readonly<Record<string, unknown>> | undefined;
  /**
   * What became of a frame that came: `next` was shown, `repeat` was known, `early` waits for an earlier one, `reply`
   * has no `seq`, `malformed` was ignored.
   */
  readonly fate?: "next" | "repeat" | "early" | "reply" | "malformed";
  /** With `early`: the `seq` of the last frame before the gap. */
  readonly after?: number | undefined;
}

/** What happens on the wire, for an inspector. */
export interface Wire {
  /** Call `listener` for everything that happens from now on. Returns what stops that. */
  on(listener: (entry: WireEntry) => void): () => void;
  /** Break the connection, as a network would. The session reconnects. */
  cut(): void;
  /** Ask the server to send all frames after `seq` again. The session drops those that it has shown. */
  replay(seq: number): void;
}
