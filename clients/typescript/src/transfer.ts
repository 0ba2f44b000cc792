import { SessionError, messageOf } from "./errors.ts";
import { MOST_BYTES, type Fetch } from "./options.ts";
import type { PayloadHosts } from "./payload_hosts.ts";

/** Headers of a ticket that describe the object; no other is sent. The platform sets the length by itself. */
const HEADER = /^(content-(type|md5|encoding|disposition|language)|if-(none-)?match|cache-control|x-amz-[a-z0-9-]+)$/i;

/** GET the JSON at `url`, if that is one of the server's hosts. */
export async function download(
  fetch: Fetch,
  url: string,
  size: number | undefined,
  hosts: PayloadHosts,
): Promise<unknown> {
  const answer = await send(fetch, url, hosts, { method: "GET" });
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

/** PUT a frame to one of the server's hosts, which answers a repeated PUT with 412. */
export async function upload(
  fetch: Fetch,
  url: string,
  body: BodyInit,
  headers: Record<string, unknown>,
  hosts: PayloadHosts,
): Promise<void> {
  const given: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (typeof value === "string" && HEADER.test(name)) given[name] = value;
  }
  const { status } = await send(fetch, url, hosts, { method: "PUT", body, headers: given });
  if (![200, 201, 204, 412].includes(status)) throw failed(`the upload was answered with HTTP ${status}`);
}

async function send(fetch: Fetch, url: string, hosts: PayloadHosts, init: RequestInit): Promise<Response> {
  try {
    await hosts.check(url);
    return await fetch(url, {
      ...init,
      redirect: "error",
      credentials: "omit",
      referrerPolicy: "no-referrer",
      signal: AbortSignal.timeout(60_000),
    });
  } catch (error) {
    throw error instanceof SessionError ? error : failed(messageOf(error));
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
