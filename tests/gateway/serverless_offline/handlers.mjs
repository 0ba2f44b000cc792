/** The functions of tests/local/app behind its WebSocket API, in JavaScript, which serverless-offline runs best. They keep what they saw in files. */

import { readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import {
  ApiGatewayManagementApiClient,
  DeleteConnectionCommand,
  GetConnectionCommand,
  PostToConnectionCommand,
} from "@aws-sdk/client-apigatewaymanagementapi";

const { CALLBACK_URL, RECORDS } = process.env;
const client = new ApiGatewayManagementApiClient({ endpoint: CALLBACK_URL, maxAttempts: 1 });
const COMMANDS = { post: PostToConnectionCommand, get: GetConnectionCommand, delete: DeleteConnectionCommand };

const post = (id, text) => client.send(new PostToConnectionCommand({ ConnectionId: id, Data: Buffer.from(text) }));
const send = (id, value) => post(id, JSON.stringify(value));
const fileOf = (kind, name) => join(RECORDS, `${kind}-${encodeURIComponent(name)}`);

async function record(kind, name, value) {
  const part = join(RECORDS, crypto.randomUUID());
  await writeFile(part, JSON.stringify(value));
  await rename(part, fileOf(kind, name));
}

/** Waits, because $disconnect comes shortly after the close. */
async function recorded(kind, name) {
  for (let tries = 0; tries < 400; tries++) {
    const text = await readFile(fileOf(kind, name), "utf8").catch(() => undefined);
    if (text !== undefined) return JSON.parse(text);
    await wait(50);
  }
  return null;
}

export async function authorize(event) {
  const query = event.queryStringParameters ?? {};
  const wish = query.auth ?? "allow";
  await record("authorize", event.requestContext.connectionId, event);
  if (wish === "unauthorized") throw new Error("Unauthorized");
  if (wish === "raise") throw new TypeError("the authorizer is broken");
  if (wish === "nothing") return null;
  const session = wish === "large" ? "x".repeat(9000) : (query.session_id ?? "");
  const context = { user: "someone", session, number: 7, flag: true };
  const statement = { Action: "execute-api:Invoke", Effect: wish === "deny" ? "Deny" : "Allow", Resource: event.methodArn };
  return {
    principalId: "someone",
    policyDocument: { Version: "2012-10-17", Statement: [statement] },
    context: wish === "object" ? { nested: {} } : context,
  };
}

export async function connect(event) {
  const query = event.queryStringParameters ?? {};
  const { connectionId } = event.requestContext;
  if ("fail" in query) throw new Error("connect is broken");
  if ("refuse" in query) return { statusCode: Number(query.refuse), body: "no" };
  if ("post" in query) event.early = await post(connectionId, "too early").then(() => "posted", (error) => error.name);
  await record("connect", connectionId, event);
  const offered = event.headers["Sec-WebSocket-Protocol"] ?? "";
  return { statusCode: 200, headers: offered.includes("chat") ? { "Sec-WebSocket-Protocol": "chat" } : {} };
}

export async function disconnect(event) {
  await record("disconnect", event.requestContext.connectionId, event);
  return { statusCode: 200 };
}

export async function unknown(event) {
  await send(event.requestContext.connectionId, { default: event.body });
  return { statusCode: 200 };
}

/** Does what the message's `do` says, and answers on the connection. */
export async function command(event) {
  const { connectionId } = event.requestContext;
  const message = JSON.parse(event.body);
  switch (message.do) {
    case "event":
      await send(connectionId, event);
      break;
    case "raise":
      throw new Error("broken on purpose");
    case "send":
      for (let n = 0; n < (message.times ?? 1); n++) await send(connectionId, { n });
      break;
    case "manage":
      await send(connectionId, await manage(message));
      break;
    case "record":
      await record("message", message.name, connectionId);
      await send(connectionId, { recorded: message.name });
      break;
    case "recorded":
      await send(connectionId, await recorded(message.kind, message.name));
  }
  return { statusCode: 200, body: "the reply" };
}

/** Call `@connections` on another connection, and report the outcome. */
async function manage({ call, connection, size = 1 }) {
  const input = { ConnectionId: connection, ...(call === "post" && { Data: Buffer.alloc(size, "x") }) };
  try {
    const { $metadata, ...answer } = await client.send(new COMMANDS[call](input));
    return { status: $metadata.httpStatusCode, ...answer };
  } catch (error) {
    return { status: error.$metadata?.httpStatusCode, error: error.name };
  }
}
