import { expect, test } from "vitest";

import { checkedSessionId, newSessionId, parseAddress, socketUrl } from "../src/address.ts";

test.each([
  ["ws://localhost:8000", "", "ws://localhost:8000/ws/a%3Ab?x=1", "http://localhost:8000/api/v1"],
  ["https://ide.example.com/", "", "wss://ide.example.com/ws/a%3Ab?x=1", "https://ide.example.com/api/v1"],
  ["http://[::1]:8000/api/v1/ws/{session_id}", "", "ws://[::1]:8000/api/v1/ws/a%3Ab?x=1", "http://[::1]:8000/api/v1"],
  ["wss://x.execute-api.eu-west-1.amazonaws.com/live", "", "wss://x.execute-api.eu-west-1.amazonaws.com/live?session_id=a%3Ab&x=1", ""],
  ["wss://x.example/live", "https://y.example", "wss://x.example/live?session_id=a%3Ab&x=1", "https://y.example/api/v1"],
  ["wss://x.example/s?a={session_id}#f", "https://y.example/api/v1/", "wss://x.example/s?a=a%3Ab&x=1", "https://y.example/api/v1"],
])("%s with %j", (url, rest, socket, api) => {
  const address = parseAddress(url, rest);
  expect(socketUrl(address, "a:b", "x=1")).toBe(socket);
  expect(address.rest).toBe(api);
});

test.each(["localhost:8000", "ftp://x", "ws://", "ws://u:p@host", "ws://[", "", "ws://host:99999999", "javascript:0"])(
  "%j is refused",
  (url) => {
    expect(() => parseAddress(url)).toThrow(expect.objectContaining({ kind: "invalid_address" }));
  },
);

test.each(["y.example", "ftp://y", "https://u:p@y"])("%j is no address of a REST API", (rest) => {
  expect(() => parseAddress("wss://x/live", rest)).toThrow(expect.objectContaining({ kind: "invalid_address" }));
});

test("ids of sessions", () => {
  expect(checkedSessionId(newSessionId())).toMatch(/^\d{8}-\d{6}-[0-9a-f]{6}$/);
  for (const right of ["...", ".a", "..a", "a.", "a..", ":", "-"]) expect(checkedSessionId(right)).toBe(right);
  for (const wrong of ["", "a b", "ä", "x".repeat(129), "a/b", ".", "..", ".\n"]) expect(() => checkedSessionId(wrong)).toThrow();
});
