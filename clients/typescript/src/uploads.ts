import { SessionError } from "./errors.ts";
import type { WireReport } from "./link.ts";
import type { Fetch } from "./options.ts";
import type { PayloadHosts } from "./payload_hosts.ts";
import type { ErrorFrame, UploadTicketFrame } from "./protocol.ts";
import { upload } from "./transfer.ts";

interface UploadsOptions {
  fetch: Fetch;
  hosts: PayloadHosts;
  /** How long a ticket is waited for. */
  ticketMs: number;
  report: WireReport;
  /** Asks for a ticket. */
  request(bytes: number): void;
}

/** Uploads large frames, one after the other: a ticket does not say which frame it is for. */
export class Uploads {
  readonly #options: UploadsOptions;
  #last: Promise<unknown> = Promise.resolve();
  #waiting: { resolve(ticket: UploadTicketFrame): void; reject(error: unknown): void } | undefined;

  constructor(options: UploadsOptions) {
    this.#options = options;
  }

  /** Upload a frame. Gives its reference. */
  upload(body: Uint8Array<ArrayBuffer>): Promise<string> {
    const done = this.#last.then(() => this.#upload(body));
    this.#last = done.catch(() => {});
    return done;
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
    const { fetch, hosts, ticketMs, report, request } = this.#options;
    let timer: ReturnType<typeof setTimeout> | undefined;
    try {
      const ticket = await new Promise<UploadTicketFrame>((resolve, reject) => {
        this.#waiting = { resolve, reject };
        timer = setTimeout(() => this.fail("no ticket came"), ticketMs);
        request(body.length);
      });
      this.#waiting = undefined;
      await upload(fetch, ticket.url, body, ticket.headers, hosts);
      report.report("put", "", { bytes: body.length });
      return ticket.payload_ref;
    } finally {
      clearTimeout(timer);
      this.#waiting = undefined;
    }
  }
}
