/** A server in the test's process, which greets as ours does and gives each other frame to the test. */

import { once } from "node:events";
import type { AddressInfo } from "node:net";
import WebSocket, { WebSocketServer } from "ws";

import { createSession, memoryJournal, type Session, type SessionEvent, type SessionOptions } from "../src/index.ts";

type Frame = Record<string, any>;

export interface Served {
  url: string;
  /** All frames that came, of all connections. */
  frames: Frame[];
  /** The connections, oldest first. */
  sockets: WebSocket[];
  /** The subprotocols that each connection offered. */
  offered: string[][];
  openCalls: Frame[];
  /** What answers each `resume`, in place of a `resumed` that ends the handshake. */
  resumed?: Frame;
  info: Frame;
  tell(frame: Frame | string): void;
}

const servers: WebSocketServer[] = [];
const sessions: Session[] = [];

export async function serve(answer: (frame: Frame, served: Served) => void = () => {}): Promise<Served> {
  const server = new WebSocketServer({
    port: 0,
    host: "127.0.0.1",
    handleProtocols: (protocols) => (protocols.has("codelab") ? "codelab" : false),
  });
  servers.push(server);
  await once(server, "listening");
  const served: Served = {
    url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}`,
    frames: [],
    sockets: [],
    offered: [],
    openCalls: [],
    info: { session_id: "s", agent: "coder", status: "idle", title: "", last_seq: 0, pending_calls: [], plan: [], settings: {} },
    tell: (frame) => served.sockets.at(-1)?.send(typeof frame === "string" ? frame : JSON.stringify(frame)),
  };
  server.on("connection", (socket, request) => {
    served.sockets.push(socket);
    served.offered.push((request.headers["sec-websocket-protocol"] ?? "").split(/, ?/));
    socket.on("message", (data) => {
      const frame = JSON.parse(String(data)) as Frame;
      served.frames.push(frame);
      if (frame["type"] === "hello") served.tell({ type: "session_info", limits: {}, ...served.info });
      else if (frame["type"] === "resume") {
        served.tell(served.resumed ?? { type: "resumed", last_seq: frame["last_seq"], open_calls: served.openCalls });
      } else answer(frame, served);
    });
  });
  return served;
}

export function newSession(url: string, options: Partial<SessionOptions> = {}): Session {
  const session = createSession({
    url,
    sessionId: "s",
    WebSocket,
    journal: memoryJournal(),
    timing: { repeatMs: 1_000, tickMs: 20, pauseMs: 10, longestPauseMs: 50 },
    ...options,
  });
  sessions.push(session);
  return session;
}

export function openSession(url: string, options: Partial<SessionOptions> = {}): Promise<Session> {
  return newSession(url, options).open();
}

export async function stopAll(): Promise<void> {
  await Promise.all(sessions.splice(0).map((session) => session.close()));
  stopServers();
}

export function stopServers(): void {
  for (const server of servers.splice(0)) {
    for (const client of server.clients) client.terminate();
    server.close();
  }
}

/** The events up to the first that a test accepts. */
export async function until(
  events: AsyncIterable<SessionEvent>,
  accepts: (event: SessionEvent) => boolean,
): Promise<SessionEvent[]> {
  const seen: SessionEvent[] = [];
  for await (const event of events) {
    seen.push(event);
    if (accepts(event)) return seen;
  }
  return seen;
}

/** Wait until something is true. */
export async function eventually(accepts: () => boolean): Promise<void> {
  while (!accepts()) await new Promise((resolve) => setTimeout(resolve, 5));
}

/** A JWT that nobody signed. */
export function jwt(claims: Frame): string {
  const part = (value: Frame): string => Buffer.from(JSON.stringify(value)).toString("base64url");
  return `${part({ alg: "HS256" })}.${part(claims)}.c2ln`;
}

/** What a component is mounted in. */
export function emptyPage(): Element {
  document.body.replaceChildren(document.createElement("div"));
  return document.body.firstElementChild as Element;
}
