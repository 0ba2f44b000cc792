/** Large frames come from the server's own storage and go there: its frames cannot send the client anywhere else. */

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test, vi } from "vitest";

import { isPublic } from "../src/addresses.ts";
import { parseAddress } from "../src/address.ts";
import type { Fetch } from "../src/options.ts";
import { PayloadHosts } from "../src/payload_hosts.ts";
import { download, upload } from "../src/transfer.ts";

const BUCKET = "codelab-payloadbucket-1x.s3.eu-central-1.amazonaws.com";
const STACK = parseAddress("wss://a1.execute-api.eu-central-1.amazonaws.com/v1", "https://b2.execute-api.eu-central-1.amazonaws.com");
const COMPANY = parseAddress("wss://codelab.example.com/v1", "https://codelab.example.com");
const CHINA = parseAddress("wss://a1.execute-api.cn-north-1.amazonaws.com.cn/v1");

const servers: Server[] = [];
afterEach(() => Promise.all(servers.splice(0).map((server) => new Promise((resolve) => server.close(resolve)))));

/** What `/client-config` answers; undefined: nothing. */
function config(content?: unknown): Fetch {
  return vi.fn(async () => {
    if (content === undefined) throw new Error("no answer");
    return new Response(JSON.stringify(content));
  }) as unknown as Fetch;
}

async function allows(address: typeof STACK, url: string, content: unknown, check = async (): Promise<boolean> => true): Promise<boolean> {
  return new PayloadHosts(address, config(content), check).check(url).then(
    () => true,
    () => false,
  );
}

const ELSEWHERE = [
  "https://evil.example/x", `https://${BUCKET}.evil.example/x`, `https://${BUCKET}@evil.example/`, `https://evil.example#${BUCKET}`,
  `https://evil.example\\@${BUCKET}/`, "https://amazonaws.com/", "https://evil-amazonaws.com/", "https://b.s3.eu-central-1.evilamazonaws.com/",
  "https://s3.evil.com/", "https://s3evil.amazonaws.com/", "https://x.execute-api.eu-central-1.amazonaws.com/",
  "https://bucket.s3-website.eu-central-1.amazonaws.com/", "https://dynamodb.eu-central-1.amazonaws.com/", "https://169.254.169.254/",
  "https://127.0.0.1/", "https://localhost/", "https://[::1]/", "https://10.0.0.1/", "https://2130706433/", `https://${BUCKET}:8443/x`,
  `http://${BUCKET}/x`, `ftp://${BUCKET}/x`, "file:///etc/passwd", "//evil.example/x", "", "https://", "javascript:alert(1)", "data:,x",
];

test.each(ELSEWHERE)("a frame does not lead to %s", async (url) => {
  for (const content of [{}, { payload_hosts: [BUCKET] }, undefined]) {
    expect(await allows(STACK, url, content)).toBe(false);
    expect(await allows(COMPANY, url, content)).toBe(false);
  }
});

test("the hosts that the server names are reached, and with an older one S3's of its partition", async () => {
  const named = { payload_hosts: [BUCKET, "storage.example.com:9000"] };
  for (const url of [`https://${BUCKET}/items/a?X=1`, "https://storage.example.com:9000/a", "https://codelab.example.com/a"]) {
    expect(await allows(COMPANY, url, named), url).toBe(true);
  }
  expect(await allows(COMPANY, "https://other.s3.eu-central-1.amazonaws.com/", named)).toBe(false);
  for (const host of ["b-1.s3.eu-central-1.amazonaws.com", "b.c.s3.us-east-1.amazonaws.com", "s3.us-west-2.amazonaws.com",
    "bkt.s3.amazonaws.com", "bkt.s3-us-west-2.amazonaws.com", "bkt.s3.dualstack.ap-southeast-1.amazonaws.com"]) {
    expect(await allows(STACK, `https://${host}/x`, {}), host).toBe(true);
    expect(await allows(COMPANY, `https://${host}/x`, undefined), host).toBe(true);
    expect(await allows(CHINA, `https://${host}/x`, {}), host).toBe(false);
  }
  expect(await allows(CHINA, "https://bkt.s3.cn-north-1.amazonaws.com.cn/x", {})).toBe(true);
  expect(await allows(STACK, "https://bkt.s3.cn-north-1.amazonaws.com.cn/x", {})).toBe(false);
});

test("the configuration is read once, and again after a failure", async () => {
  const fetch = config({ payload_hosts: [BUCKET] });
  const hosts = new PayloadHosts(COMPANY, fetch, async () => true);
  for (let n = 0; n < 3; n++) await hosts.check(`https://${BUCKET}/x`);
  expect(fetch).toHaveBeenCalledTimes(1);
  expect(fetch).toHaveBeenCalledWith("https://codelab.example.com/client-config", expect.objectContaining({ credentials: "omit", redirect: "error" }));
  const silent = config();
  const others = new PayloadHosts(COMPANY, silent, async () => true);
  for (let n = 0; n < 2; n++) await others.check(`https://${BUCKET}/x`);
  expect(silent).toHaveBeenCalledTimes(2);
});

test("a name with a private address is reached only if the server has one itself", async () => {
  const named = { payload_hosts: ["storage.example.com"] };
  const url = "https://storage.example.com/x";
  expect(await allows(COMPANY, url, named, async (host?: string) => host !== "storage.example.com")).toBe(false);
  expect(await allows(COMPANY, url, named, async () => false)).toBe(true);
  for (const host of ["127.0.0.1", "10.1.2.3", "169.254.169.254", "192.168.1.1", "172.20.0.1", "100.100.0.1", "[::1]", "[fd00::1]", "[::ffff:10.0.0.1]"]) {
    expect(await isPublic(host), host).toBe(false);
    expect(await new PayloadHosts(COMPANY, config({ payload_hosts: [host] })).check(`https://${host}/`).then(() => true, () => false)).toBe(false);
  }
  for (const host of ["93.184.215.14", "[2606:2800:21f:cb07:6820:80da:af6b:8b2c]"]) expect(await isPublic(host), host).toBe(true);
});

test("a redirect is not followed, another port is not the server's, and a ticket cannot name any header", async () => {
  const requests: { url: string; headers: Record<string, unknown> }[] = [];
  const listen = async (status: number, headers: Record<string, string>): Promise<string> => {
    const server = createServer((request, response) => {
      requests.push({ url: `${request.headers.host}${request.url}`, headers: request.headers });
      request.resume().once("end", () => response.writeHead(status, headers).end("{}"));
    });
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  };
  const elsewhere = await listen(200, {});
  const moved = await listen(302, { location: `${elsewhere}/x` });
  const cloud = await listen(200, {});
  const fetch: Fetch = (input, init) => globalThis.fetch(input, init);
  const hostsOf = (url: string): PayloadHosts => new PayloadHosts(parseAddress(url.replace("http", "ws")), fetch);
  await expect(download(fetch, `${moved}/x`, undefined, hostsOf(moved))).rejects.toThrow();
  await expect(upload(fetch, `${moved}/x`, new Uint8Array(2), {}, hostsOf(moved))).rejects.toThrow();
  await expect(download(fetch, `${elsewhere}/x`, undefined, hostsOf(cloud))).rejects.toThrow("neither its own host");
  await expect(upload(fetch, `${elsewhere}/x`, new Uint8Array(2), {}, hostsOf(cloud))).rejects.toThrow("neither its own host");
  expect(requests.filter(({ url }) => url.startsWith(elsewhere.slice("http://".length)))).toEqual([]);
  const ticket = { "Content-Type": "application/json", "If-None-Match": "*", "x-amz-meta-a": "b", Authorization: "Bearer x", Cookie: "a=b", "X-Other": "y" };
  await upload(fetch, `${cloud}/x`, new Uint8Array(2), ticket, hostsOf(cloud));
  const sent = requests.at(-1)!.headers;
  expect(sent).toMatchObject({ "content-type": "application/json", "if-none-match": "*", "x-amz-meta-a": "b" });
  for (const name of ["authorization", "cookie", "x-other"]) expect(sent).not.toHaveProperty(name);
  expect(await download(fetch, `${cloud.replace("127.0.0.1", "localhost")}/x`, undefined, hostsOf(cloud))).toEqual({});
});
