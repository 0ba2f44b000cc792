import type { ErrorCode } from "./protocol.ts";

/**
 * Why a session ended, or what was refused.
 *
 * - `invalid_address`: the address or the session id is not valid.
 * - `unreachable`: nothing answers, or the server refuses connections.
 * - `unauthorized`: the server does not accept the token, or it expired and there is no newer one.
 * - `closed`: the session was closed here, deleted, or replaced by newer connections.
 * - `refused`: the server refused a frame, which changed nothing, or a connection; `code` says why.
 * - `transfer`: an upload or a download failed.
 * - `journal`: the journal of executed calls cannot be read or written.
 */
export type SessionErrorKind =
  | "invalid_address"
  | "unreachable"
  | "unauthorized"
  | "closed"
  | "refused"
  | "transfer"
  | "journal";

/** What the methods of a session throw. The message is for a human. */
export class SessionError extends Error {
  readonly kind: SessionErrorKind;
  /** With `refused`: the protocol's code. */
  readonly code: ErrorCode | undefined;
  /** With `refused`: in how many seconds to try again, if the server says so. */
  readonly retryAfter: number | undefined;

  constructor(kind: SessionErrorKind, message: string, code?: ErrorCode, retryAfter?: number) {
    super(message);
    this.name = "SessionError";
    this.kind = kind;
    this.code = code;
    this.retryAfter = retryAfter;
  }
}

/** A tool throws this to answer its call with one of the protocol's codes; other errors become `EXECUTION_FAILED`. */
export class ToolError extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string) {
    super(message);
    this.name = "ToolError";
    this.code = code;
  }
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message || error.name : String(error);
}
