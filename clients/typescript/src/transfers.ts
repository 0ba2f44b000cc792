import type { Address } from "./address.ts";
import { SessionError } from "./errors.ts";
import type { WireReport } from "./link.ts";
import type { Fetch } from "./options.ts";
import { PayloadHosts, type IsPublic } from "./payload_hosts.ts";
import type { ClientFrame, ErrorFrame, ToolCallFrame, UploadTicketFrame } from "./protocol.ts";
import { download, upload } from "./transfer.ts";

export interface TransfersOptions {
  address: Address;
  fetch: Fetch;
  isPublic: IsPublic | undefined;
  /** How long a ticket is waited for. */
  ticketMs: number;
  report: WireReport;
  /** Asks for a ticket. */
  request(bytes: number): void;
}

/** Downloads large frames, and uploads them, one after the other: a ticket does not say which frame it is for. */
export class Transfers {
  readonly #options: TransfersOptions;
  readonly #hosts: PayloadHosts;
  #last: Promise<unknown> = Promise.resolve();
  #waiting: { resolve(ticket: UploadTicketFrame): void; reject(error: unknown): void } | undefined;

  constructor(options: TransfersOptions) {
    this.#options = options;
    this.#hosts = new PayloadHosts(options.address, options.fetch, options.isPublic);
  }

  /** The field that a frame with a `payload_url` lacks. */
  async download({ payload_url: url = "", payload_bytes: bytes }: { payload_url?: string; payload_bytes?: number }): Promise<unknown> {
    const { fetch, report } = this.#options;
    const found = await download(fetch, url, bytes, this.#hosts);
    report.report("get", "", { bytes: bytes ?? 0 });
    return found;
  }

  /** A call with the arguments that it lacks. */
  async withArguments(call: ToolCallFrame): Promise<ToolCallFrame> {
    const found = await this.download(call);
    if (typeof found !== "object" || found === null || Array.isArray(found)) throw new Error("they are not an object");
    return { ...call, arguments: found as Record<string, unknown> };
  }

  /** Upload a frame. Gives the frame to send in its place. */
  async upload(frame: ClientFrame, body: Uint8Array<ArrayBuffer>): Promise<Record<string, unknown>> {
    const done = this.#last.then(() => this.#upload(body));
    this.#last = done.catch(() => {});
    const callId = "call_id" in frame ? { call_id: frame.call_id } : {};
    const request = frame.request_id ? { request_id: frame.request_id } : {};
    return { type: frame.type, ...callId, ...request, payload_ref: await done };
  }

  ticket(ticket: UploadTicketFrame): void {
    this.#waiting?.resolve(ticket);
  }

  /** The server refused a frame. Gives whether it was the one that asks for a ticket. */
  refused(error: ErrorFrame): boolean {
    const isAboutUpload =
      error.details["field"] === "bytes" ||
      error.error_code === "PAYLOAD_TOO_LARGE" ||
      error.details["quota"] === "stored_bytes_per_day";
    if (!this.#waiting || !isAboutUpload) return false;
    this.#waiting.reject(new SessionError("refused", error.message, error.error_code, error.retry_after));
    return true;
  }

  fail(why: string): void {
    this.#waiting?.reject(new SessionError("transfer", why));
  }

  async #upload(body: Uint8Array<ArrayBuffer>): Promise<string> {
    const { fetch, ticketMs, report, request } = this.#options;
    let timer: ReturnType<typeof setTimeout> | undefined;
    try {
      const ticket = await new Promise<UploadTicketFrame>((resolve, reject) => {
        this.#waiting = { resolve, reject };
        timer = setTimeout(() => this.fail("no ticket came"), ticketMs);
        request(body.length);
      });
      this.#waiting = undefined;
      await upload(fetch, ticket.url, body, ticket.headers, this.#hosts);
      report.report("put", "", { bytes: body.length });
      return ticket.payload_ref;
    } finally {
      clearTimeout(timer);
      this.#waiting = undefined;
    }
  }
}
