import assert from "node:assert/strict";
import { test } from "node:test";
import { EMPTY, reduce, type ConversationState, type SessionEvent } from "@codelab/client";
import { Lexer } from "marked";
import type { ComponentChildren, VNode } from "preact";
import { editedArguments, replacement } from "../src/edit.ts";
import { readStatus } from "../src/git.ts";
import { Items } from "../src/items.ts";
import { Kept } from "../src/kept.ts";
import { readMessage } from "../src/messages.ts";
import { applied, deltaOf, type Item, type View } from "../src/model.ts";
import { statusOf, surroundings } from "../src/surroundings.ts";
import { drawn } from "../src/view/markdown.tsx";

const around = surroundings(EMPTY, false, "");

function stateOf(...events: object[]): ConversationState {
  return (events as SessionEvent[]).reduce(reduce, EMPTY);
}

const asked = { type: "user_message", client_msg_id: "m", turn_id: "t", role: "user", content: "Do it", seq: 1 };
const token = (text: string, seq: number) => ({ type: "assistant_message", message_id: "a", turn_id: "t", token: text, is_final: false, seq });
const call = { type: "tool_call", call_id: "c", turn_id: "t", tool_name: "run_command", arguments: { command: "ls" }, requires_approval: true, seq: 4 };

test("a token sends one item again, and the view shares all others", () => {
  const items = new Items();
  const of = (state: ConversationState): View => ({ items: items.of(state, new Map()), around });
  const before = of(stateOf(asked, token("Hel", 2)));
  const after = of(stateOf(asked, token("Hel", 2), token("lo", 3)));
  const first = applied({ items: [], around }, deltaOf(undefined, before)!);
  const delta = deltaOf(before, after)!;
  assert.deepEqual(delta.items.map(({ id }) => id).includes("a"), true);
  assert.equal(delta.order, undefined);
  assert.equal(delta.around, undefined);
  const next = applied(first, delta);
  assert.deepEqual(next.items.map((item) => "text" in item && item.text), ["Do it", "Hello"]);
  assert.equal(deltaOf(after, after), undefined);
});

test("an item that is the same is not made again", () => {
  const items = new Items();
  const state = stateOf(asked, token("Hello", 2));
  const [one] = items.of(state, new Map());
  const later = reduce(state, token(".", 3) as SessionEvent);
  assert.equal(items.of(later, new Map())[0], one);
});

test("a call shows all that is decided about, with nothing hidden in it", () => {
  const hidden = { ...call, arguments: { command: "ls\u202e; rm\u200b -r ." } };
  const item = new Items().of(stateOf(asked, hidden), new Map()).at(-1) as Extract<Item, { kind: "call" }>;
  assert.equal(item.args, "ls⟨U+202E⟩; rm⟨U+200B⟩ -r .");
  assert.equal(item.state, "asking");
});

test("the status of a folder in a repository names what is below it", () => {
  const records = ["# branch.oid x", "# branch.head (detached)", "1 MM N... 100644 100644 100644 a b src/one two.py", "1 M. N... 100644 100644 100644 a b other.py"];
  const others = ["2 R. N... 100644 100644 100644 a b R100 src/new.py", "src/old.py", "u UU N... 100644 100644 100644 100644 a b c src/both.py", "? src/x", "! src/y", ""];
  const { branch, files } = readStatus([...records, ...others], "src/");
  assert.equal(branch, "(detached)");
  assert.deepEqual(files.map(({ path, status, staged }) => `${path} ${status} ${staged}`), [
    "one two.py modified true",
    "one two.py modified false",
    "new.py renamed true",
    "both.py modified true",
    "both.py modified false",
    "x untracked false",
  ]);
});

test("the images of a result are shown, and nothing else that claims to be one", () => {
  const png = Buffer.from("\x89PNG\r\n\x1a\n 1", "latin1").toString("base64");
  const gif = Buffer.from("GIF89a 1", "latin1").toString("base64");
  const claims = [null, "x", { media_type: "image/svg+xml", data: btoa("<svg/>") }, { media_type: "image/png", data: gif }, { media_type: "image/png", data: `${png}"` }];
  const images = [...claims, { media_type: "image/png", data: png }, { media_type: "image/gif", data: gif }];
  const told = { type: "call_update", call_id: "c", turn_id: "t", state: "completed", result: { images, size: 9 }, seq: 5 };
  const item = new Items().of(stateOf(asked, call, told), new Map()).at(-1) as Extract<Item, { kind: "call" }>;
  assert.deepEqual(item.images, images.slice(-2));
  assert.deepEqual(JSON.parse(item.result), { images: ["image/png", "image/gif"], size: 9 });
});

test("a change shows line ends, blanks and the end of the file", () => {
  const diff = [{ path: "a.txt", before: "a\r\nb", after: "a \nb\n" }];
  const state = reduce(stateOf(asked, call), { type: "diffed", callId: "c", diff });
  const item = new Items().of(state, new Map()).at(-1) as Extract<Item, { kind: "call" }>;
  assert.deepEqual(item.changes[0]?.notes, ["Line ends change: CRLF → LF", "A newline at the end of the file now"]);
  assert.ok(item.changes[0]?.lines.includes("+a␠"));
});

test("a replacement makes the edited text, and its old text occurs once", () => {
  const texts = ["a\nb\na\nb\n", "x", "\n\n\n", "a\nb\nc", "one\ntwo\none\ntwo\none\n", "é\r\nb\r\n"];
  for (const before of texts) {
    for (const after of [...texts, "", `${before}z`, `z${before}`]) {
      if (before === after) continue;
      const edit = replacement(before, after);
      assert.equal(before.split(edit.old).length, 2, JSON.stringify([before, after, edit]));
      assert.equal(before.replace(edit.old, () => edit.new), after);
    }
  }
});

test("edited arguments keep what was not edited", () => {
  const write = { ...call, tool_name: "write_file", arguments: { path: "a", content: "old" } };
  assert.deepEqual(editedArguments(write as never, null, "new"), { path: "a", content: "new" });
  const edit = { ...call, tool_name: "edit_file", arguments: { path: "a", edits: [{ old: "b", new: "c" }] } };
  assert.deepEqual(editedArguments(edit as never, "a\nb\n", "a\nd\n"), { path: "a", edits: [{ old: "b\n", new: "d\n" }] });
});

test("a long output keeps its beginning and its end", () => {
  const kept = new Kept();
  for (let n = 0; n < 300; n++) kept.add(`${n} `.repeat(5_000));
  assert.ok(kept.text.length < 1_600_000);
  assert.match(kept.text, /^0 0 .*characters are left out here.* 299 $/s);
});

test("what is no message of the view is not taken", () => {
  for (const value of [null, 1, "x", {}, { type: "toString" }, { type: "prompt" }, { type: "reject", id: 1, feedback: "" }]) {
    assert.equal(readMessage(value), undefined);
  }
  assert.deepEqual(readMessage({ type: "stop" }), { type: "stop" });
});

test("the status bar says that a call waits", () => {
  const online = [{ type: "online", again: false }];
  assert.match(statusOf(stateOf(...online, asked, call)).text, /CodeLab: 1/);
  assert.equal(statusOf(stateOf(...online, asked, call)).isAsking, true);
  assert.match(statusOf(stateOf({ type: "offline", why: "no network", retryInMs: 1_000 })).text, /disconnect/);
});

/** All elements as tags with their attributes, behind a mark, and all texts. */
function flat(node: ComponentChildren): string[] {
  if (Array.isArray(node)) return node.flatMap(flat);
  if (typeof node !== "object" || node === null) return node === null || node === undefined || node === false ? [] : [String(node)];
  const { type, props } = node as VNode<Record<string, unknown>>;
  const { children, ...attributes } = props;
  const name = typeof type === "string" ? [`§<${type}${Object.entries(attributes).map(([key, value]) => ` ${key}=${String(value)}`).join("")}>`] : [];
  return [...name, ...flat(children as ComponentChildren)];
}

const elements = (text: string): string[] => new Lexer({ gfm: true }).lex(text).flatMap((token) => flat(drawn(token, 0)));

test("Markdown becomes elements", () => {
  const found = elements("# Title\n\n**Bold** `a<b` & [site](https://example.com)\n\n1. one\n\n| a |\n|---|\n| b |\n\n```py\nx < 1\n```");
  for (const part of ["§<p class=heading h1>", "§<strong>", "a<b", "§<a href=https://example.com title=https://example.com>", "§<ol start=1>", "§<td>", "x < 1"]) {
    assert.ok(found.includes(part), `${part} in ${JSON.stringify(found)}`);
  }
});

test("what a hostile model writes stays text", () => {
  const hostile = [
    "<script>alert(1)</script>",
    '<img src=x onerror="alert(1)">',
    "![x](https://example.com/x.png)",
    "[run](command:workbench.action.terminal.new)",
    "[run](javascript:alert(1))",
    "[run](vscode://x/y)",
    "[run](file:///etc/passwd)",
    "<a href='command:x'>x</a> <iframe src=https://example.com></iframe>",
    "[x]: command:x\n\n[x]",
  ];
  for (const text of hostile) {
    const tags = elements(text).filter((part) => part.startsWith("§"));
    assert.deepEqual(tags.filter((tag) => tag !== "§<p>"), [], text);
  }
  assert.ok(elements(`${"> ".repeat(200)}deep`).join("").includes("deep"));
});
