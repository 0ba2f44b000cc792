import { SessionError, messageOf } from "./errors.ts";

/** Frames above this size (bytes of JSON) are sent by reference (docs/protocol.md, "Large frames"). */
export const INLINE_BYTES = 30_000;
/** The largest frame, in either direction. */
export const MOST_BYTES = 10_000_000;

export type Fetch = typeof globalThis.fetch;

/** GET the JSON at `url`; `secure`: only over TLS. */
export async function download(fetch: Fetch, url: string, size: number | undefined, secure: boolean): Promise<unknown> {
  const answer = await send(fetch, url, secure, { method: "GET" });
  if (answer.status !== 200) throw failed(`the download was answered with HTTP ${answer.status}`);
  const body = await read(answer);
  if (size !== undefined && body.byteLength !== size) {
    throw failed(`the download has ${body.byteLength} bytes instead of ${size}`);
  }
  try {
    return JSON.parse(new TextDecoder().decode(body));
  } catch {
    throw failed("the download is not JSON");
  }
}

/** PUT a frame; `secure`: only over TLS. The server answers a repeated PUT with 412. */
export async function upload(
  fetch: Fetch,
  url: string,
  body: Uint8Array<ArrayBuffer>,
  headers: Record<string, unknown>,
  secure: boolean,
): Promise<void> {
  const given: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    // The platform sets the length by itself, and refuses to be told.
    if (typeof value === "string" && name.toLowerCase() !== "content-length") given[name] = value;
  }
  const { status } = await send(fetch, url, secure, { method: "PUT", body, headers: given });
  if (![200, 201, 204, 412].includes(status)) throw failed(`the upload was answered with HTTP ${status}`);
}

async function send(fetch: Fetch, url: string, secure: boolean, init: RequestInit): Promise<Response> {
  if (!/^https?:/.test(url)) throw failed("the server names an address that is not http");
  if (secure && !url.startsWith("https:")) throw failed("the server names an address without TLS");
  try {
    return await fetch(url, {
      ...init,
      redirect: "error",
      credentials: "omit",
      referrerPolicy: "no-referrer",
      signal: AbortSignal.timeout(60_000),
    });
  } catch (error) {
    throw failed(messageOf(error));
  }
}

async function read(answer: Response): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  try {
    for (const reader = answer.body?.getReader(); reader; ) {
      const { value, done } = await reader.read();
      if (done) break;
      size += value.byteLength;
      if (size > MOST_BYTES) {
        await reader.cancel();
        throw failed(`the answer has more than ${MOST_BYTES} bytes`);
      }
      pieces.push(value);
    }
  } catch (error) {
    throw error instanceof SessionError ? error : failed(messageOf(error));
  }
  const body = new Uint8Array(size);
  let at = 0;
  for (const piece of pieces) {
    body.set(piece, at);
    at += piece.byteLength;
  }
  return body;
}

function failed(why: string): SessionError {
  return new SessionError("transfer", why);
}
