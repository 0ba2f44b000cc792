import { SessionError, messageOf } from "./errors.ts";

/** A part of the client that is loaded when it is first asked for, and again if that has failed. */
export function loaded<Part>(load: () => Promise<Part>): () => Promise<Part> {
  let part: Promise<Part> | undefined;
  return () =>
    (part ??= load().catch((error: unknown) => {
      part = undefined;
      throw new SessionError("unreachable", `A part of the client could not be loaded: ${messageOf(error)}`);
    }));
}
