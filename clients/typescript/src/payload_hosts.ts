import type { Address } from "./address.ts";
import { SessionError } from "./errors.ts";
import type { Fetch } from "./options.ts";

/** Whether a host has an address of the public internet. */
export type IsPublic = (host: string) => Promise<boolean>;

const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/;
/** Hosts that are addresses of a private network, or of this machine, as `URL` spells them. */
const PRIVATE = /^(0|10|127|169\.254|192\.168|172\.(1[6-9]|2\d|3[01])|100\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7]))\.|^\[|(^|\.)localhost$/;
const PARTITIONS = "amazonaws.com amazonaws.com.cn amazonaws.eu c2s.ic.gov sc2s.sgov.gov cloud.adc-e.uk csp.hci.ic.gov".split(" ");
/** S3's endpoints: of a region, dual-stack, and the first one of all. The bucket is before them, or in the path. */
const S3 = /^([a-z0-9][a-z0-9.-]{1,61}[a-z0-9]\.)?s3(\.dualstack)?([.-][a-z]{2,4}(-[a-z]+){1,3}-\d{1,2})?\./;

/**
 * Where large frames may come from and go to: the server's own host, and those that its `/client-config` names. An
 * older server names none: then also S3's hosts. Only where the platform resolves names, `isPublic` refuses private
 * addresses, unless the server has one itself.
 */
export class PayloadHosts {
  readonly #address: Address;
  readonly #fetch: Fetch;
  readonly #isPublic: IsPublic;
  #hosts: Promise<string[] | undefined> | undefined;

  constructor(address: Address, fetch: Fetch, isPublic?: IsPublic) {
    this.#address = address;
    this.#fetch = fetch;
    this.#isPublic = isPublic ?? (async (host) => !PRIVATE.test(host));
  }

  /** Throws a SessionError for an address that is not one of the server's. */
  async check(url: string): Promise<void> {
    let parts: URL;
    try {
      parts = new URL(url);
    } catch {
      throw refused("the server names no address");
    }
    if (!/^https?:$/.test(parts.protocol) || parts.username || parts.password) {
      throw refused("the server names an address that is not a plain http or https one");
    }
    const { socket, rest } = this.#address;
    if (socket.startsWith("wss:") && parts.protocol !== "https:") throw refused("the server names an address without TLS");
    const own = [socket.replace(/^ws/, "http"), rest].filter(Boolean).map((each) => new URL(each.replace(/[{}]/g, "")));
    if (!own.some((each) => isSame(parts, each)) && !(await this.#isNamed(parts))) {
      throw refused(`the server names ${parts.hostname}, which is neither its own host nor one of its storage`);
    }
    if (!(await this.#isPublic(parts.hostname)) && (await this.#isPublic(own[0]!.hostname))) {
      throw refused(`${parts.hostname} is not on the public internet`);
    }
  }

  async #isNamed(parts: URL): Promise<boolean> {
    this.#hosts ??= this.#configuredHosts();
    const hosts = await this.#hosts;
    if (hosts) return hosts.some((host) => host === parts.host);
    const own = PARTITIONS.find((name) => new URL(this.#address.socket).hostname.endsWith(`.${name}`));
    return (
      parts.protocol === "https:" &&
      !parts.port &&
      S3.test(parts.hostname) &&
      PARTITIONS.some((name) => (own ?? name) === name && parts.hostname.replace(S3, "") === name)
    );
  }

  /** What `/client-config` names; undefined if the server does not say. It is asked again if it did not answer. */
  async #configuredHosts(): Promise<string[] | undefined> {
    const { rest } = this.#address;
    if (!rest) return undefined;
    try {
      const answer = await this.#fetch(`${rest.slice(0, -"/api/v1".length)}/client-config`, {
        redirect: "error",
        credentials: "omit",
        signal: AbortSignal.timeout(10_000),
      });
      const hosts: unknown = (await answer.json()).payload_hosts;
      return Array.isArray(hosts) ? hosts.filter((host) => typeof host === "string") : undefined;
    } catch {
      this.#hosts = undefined;
      return undefined;
    }
  }
}

/** Whether two addresses are of one host and port. The names of this machine are one host. */
function isSame(one: URL, other: URL): boolean {
  const areLocal = LOOPBACK.test(one.hostname) && LOOPBACK.test(other.hostname);
  return portOf(one) === portOf(other) && (one.hostname === other.hostname || areLocal);
}

function portOf(url: URL): string {
  return url.port || (url.protocol === "https:" ? "443" : "80");
}

function refused(why: string): SessionError {
  return new SessionError("transfer", why);
}
