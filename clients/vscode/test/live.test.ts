/** The extension in an editor that is faked, against the running system. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmod, mkdir, readFile, readlink, rm, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { connect, memoryJournal } from "@codelab/client";
import { WebSocket } from "ws";
import { Editor, SERVER, memento, until } from "./editor.ts";
import * as fake from "./fake_vscode.ts";

/** A PNG of one pixel. */
const DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

let editor: Editor;

beforeEach(async () => {
  fake.workspace.isTrusted = true;
  fake.user.warning = async () => undefined;
  editor = await Editor.open();
});
afterEach(() => editor.close());

const at = (name: string) => join(editor.folder, name);
const put = (name: string, text: string) => writeFile(at(name), text);
const text = (name: string) => readFile(at(name), "utf8");
const document = (name: string) => fake.workspace.textDocuments.find(({ uri }) => uri.scheme === "codelab-proposal" && uri.path.endsWith(`/after/${name}`))!;

test("a file is read, and changed after its difference was approved", async () => {
  await put("a.txt", "one\ntwo\n");
  await editor.ask("[[vscode-edit]]");
  const call = await editor.asking();
  assert.deepEqual(call.changes[0]?.lines.slice(1), [" one", "-two", "+three"]);
  assert.equal(await text("a.txt"), "one\ntwo\n");
  editor.send({ type: "approve", id: call.id });
  await editor.call("completed");
  assert.equal(await text("a.txt"), "one\nthree\n");
  await editor.idle();
  await until(() => editor.items.some((item) => item.kind === "text" && item.text === "It was changed."));
});

test("the editor compares, the user edits there, and exactly that is written", async () => {
  await put("a.txt", "one\ntwo\n");
  await editor.ask("[[vscode-edit]]");
  const { id } = await editor.asking();
  editor.send({ type: "edit", id });
  await until(() => document("a.txt"));
  assert.match(fake.user.tabs[0]!.label, /^a\.txt \(proposed/);
  document("a.txt").type("one\nfour\nfive\n");
  assert.equal((await until(() => editor.items.find((item) => item.kind === "call" && item.isEdited)))?.id, id);
  await fake.commands.executeCommand("codelab.approve"); // as the button above the comparison does
  await editor.call("completed");
  assert.equal(await text("a.txt"), "one\nfour\nfive\n");
  await until(() => fake.user.tabs.length === 0, "the comparison stays open");
});

test("a rejection goes to the agent with the user's words", async () => {
  await put("a.txt", "one\ntwo\n");
  await editor.ask("[[vscode-edit]]");
  const { id } = await editor.asking();
  editor.send({ type: "reject", id, feedback: "Leave it." });
  assert.equal((await editor.call("rejected")).feedback, "Leave it.");
  await editor.idle();
  assert.equal(await text("a.txt"), "one\ntwo\n");
});

test("a file that was changed after it was shown is shown again, and only then written", async () => {
  await put("a.txt", "one\ntwo\n");
  await editor.ask("[[vscode-edit]]");
  const { id } = await editor.asking();
  await put("a.txt", "zero\ntwo\n");
  editor.send({ type: "approve", id });
  await until(() => fake.user.messages.some((message) => message.includes("nothing was approved")));
  await until(async () => (await editor.asking()).changes[0]?.lines.includes(" zero"));
  assert.equal(await text("a.txt"), "zero\ntwo\n");
  editor.send({ type: "approve", id });
  await editor.call("completed");
  assert.equal(await text("a.txt"), "zero\nthree\n");
});

test("what is not saved in the editor is what the agent reads and changes", async () => {
  await put("a.txt", "one\n");
  const open = await fake.workspace.openTextDocument(fake.Uri.file(at("a.txt")));
  open.type("one\ntwo\n");
  await editor.ask("[[vscode-edit]]");
  const { id, changes } = await editor.asking();
  assert.ok(changes[0]?.lines.includes("-two"));
  editor.send({ type: "approve", id });
  await editor.call("completed");
  assert.equal(open.getText(), "one\nthree\n");
  assert.equal(await text("a.txt"), "one\nthree\n");
  assert.equal(open.isDirty, false);
});

test("a command runs in a terminal after it was approved, and not in the editor's own environment", async () => {
  process.env["ELECTRON_RUN_AS_NODE"] = "1";
  await editor.ask("[[vscode-command]]");
  const call = await editor.asking();
  assert.equal(call.args, "echo out; echo err >&2; echo [$ELECTRON_RUN_AS_NODE]; exit 3");
  editor.send({ type: "approve", id: call.id });
  assert.equal((await editor.call("completed")).result, "out\n[]\nerr\n");
  assert.match(fake.user.terminal, /\$ echo out; .*out\r\n/s);
  assert.match(fake.user.terminal, /exit code 3/);
});

test("Ctrl-C in the terminal stops a command", async () => {
  await editor.ask("[[vscode-sleep]]");
  editor.send({ type: "approve", id: (await editor.asking()).id });
  await editor.call("running");
  await until(() => fake.user.terminal.includes("begun"));
  fake.user.type("\u0003");
  await editor.call("completed");
  assert.match(fake.user.terminal, /ended by SIGTERM/);
});

test("nothing outside of the folder is read or written, also through a link", async () => {
  await symlink("/etc", at("link"));
  await mkdir(at("inner"));
  await editor.ask("[[vscode-outside]]");
  const { id, problem } = await editor.asking();
  assert.match(problem, /leads through a link/);
  editor.send({ type: "approve", id });
  await editor.call("failed");
  await editor.idle();
  const results = editor.items.flatMap((item) => (item.kind === "call" ? [`${item.subject}: ${item.result}`] : []));
  assert.equal(results.filter((result) => result.includes("link/") && result.includes("leads through a link")).length, 2, results.join("\n"));
  editor.send({ type: "open", path: "link/passwd" });
  await until(() => fake.user.messages.some((message) => message.includes("leads through a link")));
  editor.send({ type: "open", path: "../secret" });
  await until(() => fake.user.messages.some((message) => message.includes("outside of the workspace")));
});

test("in a workspace that is not trusted the agent talks, and has no tools until it is", async () => {
  await editor.close();
  fake.workspace.isTrusted = false;
  editor = await Editor.open();
  await put("a.txt", "one\ntwo\n");
  await editor.ask("[[vscode-hello]]");
  await until(() => editor.items.some((item) => item.kind === "text" && item.text === "Hello."));
  assert.match(editor.view!.around.restriction, /do not trust/);
  await editor.idle();
  fake.user.grantTrust();
  await until(() => editor.view?.around.restriction === "" && editor.view.around.connection === "online");
  await editor.ask("[[vscode-edit]]");
  assert.equal((await editor.asking()).tool, "edit_file");
});

test("a call that was approved elsewhere runs only if the user of this window lets it", async () => {
  await put("a.txt", "one\ntwo\n");
  for (const [answer, state] of [[undefined, "failed"], ["Run It", "completed"]] as const) {
    const questions: string[] = [];
    fake.user.warning = async (message, detail) => (questions.push(`${message} ${detail}`), answer);
    await editor.ask("[[vscode-edit]]");
    const { id } = await editor.asking();
    const { sessionId } = editor.agent.conversation!.session;
    const other = await connect({ url: SERVER, sessionId, viewer: true, WebSocket: WebSocket as never, journal: memoryJournal() });
    await other.answer(id, { decision: "approve" });
    await editor.call(state);
    assert.match(questions[0]!, /^Run edit_file\? .* says that it was approved, but not in this window/s);
    assert.equal(await text("a.txt"), answer ? "one\nthree\n" : "one\ntwo\n");
    await editor.idle();
    await other.close();
  }
});

test("notes are kept where the user says, told with the next message, changed, and taken away", async () => {
  const config = process.env["XDG_CONFIG_HOME"]!;
  const pick = (...labels: string[]) => {
    fake.user.pick = async (items) => {
      const wanted = labels.shift();
      return items.find(({ label }) => label === wanted);
    };
  };
  await put("AGENTS.md", "Be kind.");
  await editor.ask("[[vscode-hello]]");
  await editor.idle();
  pick("In this project");
  editor.send({ type: "prompt", text: "/remember Use tabs." });
  await until(() => fake.user.messages.some((message) => message.startsWith("Kept in .codelab/notes.md")));
  assert.equal(await text(".codelab/notes.md"), "- Use tabs.\n");
  pick("In all my projects");
  fake.user.input = async () => "My name is Ann.";
  await fake.commands.executeCommand("codelab.remember");
  assert.equal(await readFile(join(config, "codelab/notes.md"), "utf8"), "- My name is Ann.\n");
  assert.equal((await stat(join(config, "codelab/notes.md"))).mode & 0o777, 0o600);
  const messages = editor.agent.state.messages.length;
  await editor.ask("[[vscode-notes]]");
  await until(() => editor.agent.state.messages.length >= messages + 2);
  await editor.idle();
  pick("My name is Ann.", "Change…");
  fake.user.input = async () => "My name is Bob.";
  await fake.commands.executeCommand("codelab.notes");
  assert.equal(await readFile(join(config, "codelab/notes.md"), "utf8"), "- My name is Bob.\n");
  pick("Use tabs.", "Take away");
  await fake.commands.executeCommand("codelab.notes");
  assert.equal(await text(".codelab/notes.md"), "");
  await editor.ask("[[vscode-notes]]");
  await until(() => editor.agent.state.messages.length >= messages + 4);
  await editor.idle();
});

test("a notes file that leads elsewhere, is no text, or is a pipe, is neither told nor written", async () => {
  const file = join(process.env["XDG_CONFIG_HOME"]!, "codelab/notes.md");
  await rm(file, { force: true });
  await mkdir(at(".codelab"));
  await put(".env", "- KEY=1\n");
  await symlink("../.env", at(".codelab/notes.md"));
  await symlink(at(".env"), file);
  const { kept } = editor.agent;
  for (const scope of ["user", "project"] as const) await assert.rejects(kept.notes.add(scope, "x"), /link/);
  assert.deepEqual(await kept.notes.instructions(), []);
  assert.equal(await text(".env"), "- KEY=1\n");
  await rm(file);
  execFileSync("mkfifo", [file]);
  await assert.rejects(kept.notes.add("user", "x"), /not a file/);
  await rm(file);
  await writeFile(file, Buffer.from([0x2d, 0x20, 0xff]));
  await assert.rejects(kept.notes.add("user", "x"), /not UTF-8/);
  await writeFile(file, "- x\n".repeat(10_000));
  await assert.rejects(kept.notes.places.user!.read(), /32,000 bytes/);
  await rm(file);
  await writeFile(at("mine.md"), "- one\n");
  await symlink(at("mine.md"), file);
  await kept.notes.add("user", "two");
  assert.equal(await text("mine.md"), "- one\n- two\n", "a link to such a file is followed, and stays");
  assert.equal(await readlink(file), at("mine.md"));
  await rm(file);
});

test("a second window follows, and the one that began the turn executes", async () => {
  await put("a.txt", "one\ntwo\n");
  await editor.ask("[[vscode-edit]]");
  const { id } = await editor.asking();
  const { sessionId } = editor.agent.conversation!.session;
  const other = await connect({ url: SERVER, sessionId, viewer: true, lastSeq: 0, WebSocket: WebSocket as never, journal: memoryJournal() });
  const ended = new Promise((resolve) => other.on("turn_end", resolve));
  editor.send({ type: "approve", id });
  await editor.call("completed");
  await ended;
  editor.send({ type: "approve", id });
  await until(() => fake.user.messages.some((message) => message.includes("does not wait any more")));
  await other.close();
});

test("a conversation is resumed with its messages, and another can be chosen", async () => {
  await editor.ask("[[vscode-hello]]");
  await until(() => editor.items.some((item) => item.kind === "text" && item.text === "Hello."));
  await editor.idle();
  const state = memento(editor.workspaceState.values);
  const first = editor.agent.conversation!.session.sessionId;
  await editor.close();
  editor = await Editor.open(state);
  await until(() => editor.items.some((item) => item.kind === "text" && item.text === "Hello."));
  assert.equal(editor.agent.conversation!.session.sessionId, first);
  await fake.commands.executeCommand("codelab.new");
  await until(() => editor.items.length === 0);
  fake.user.pick = async (items) => items.find((item) => (item as { id?: string }).id === first);
  await fake.commands.executeCommand("codelab.sessions");
  await until(() => editor.items.length > 0);
  assert.equal(editor.agent.conversation!.session.sessionId, first);
});

test("the mode is chosen in the view, and a view that comes again shows everything", async () => {
  await until(() => editor.view?.around.mode === "code");
  editor.send({ type: "mode", mode: "ask" });
  await until(() => editor.view?.around.mode === "ask");
  editor.showView();
  await until(() => editor.view?.around.mode === "ask");
});

test("a message can mention the files of the folder", async () => {
  await mkdir(at("src"));
  await put("src/main.py", "");
  editor.send({ type: "paths", text: "mai" });
  await until(() => editor.suggested.includes("src/main.py"));
});

test("an image that a message mentions is sent with it", async () => {
  const png = Buffer.from(DOT, "base64");
  await writeFile(at("a shot.png"), png);
  await until(() => editor.agent.conversation?.session.info);
  await editor.ask("[[vscode-hello]] Look at @a\\ shot.png, not at @missing.png or me@a.png.");
  const sent = await until(() => editor.agent.state.messages.find((message) => message.role === "user"));
  assert.deepEqual(sent.role === "user" && sent.attachments.map(({ name, type }) => [name, type]), [["a shot.png", "image"]]);
  assert.equal(sent.role === "user" && (sent.attachments[0] as { data?: string }).data, png.toString("base64"));
  await until(() => editor.items.some((item) => item.kind === "text" && item.text === "Hello."));
});

test("the agent looks at an image of the folder, which the view shows", async () => {
  const dot = Buffer.from(DOT, "base64");
  await writeFile(at("shot.png"), dot);
  await put("text.png", "no image");
  await symlink("/etc", at("link"));
  await editor.ask("[[vscode-image]]");
  await until(() => editor.items.some((item) => item.kind === "text" && item.text === "A dot."));
  const calls = editor.items.filter((item) => item.kind === "call");
  assert.deepEqual(calls.map(({ tool, subject, state }) => [tool, subject, state]), [
    ["view_image", "shot.png", "completed"],
    ["view_image", "text.png", "failed"],
    ["view_image", "link/a.png", "failed"],
    ["read_file", "shot.png", "failed"],
  ]);
  assert.deepEqual(calls[0]!.images, [{ media_type: "image/png", data: DOT }]);
  assert.ok(!calls[0]!.result.includes(DOT));
  assert.match(calls[1]!.result, /is no PNG/);
  assert.match(calls[2]!.result, /leads through a link/);
  assert.match(calls[3]!.result, /view_image shows images/);
});

test("the agent reads the repository, and no program that its settings name is run", async () => {
  const git = (...args: string[]) => execFileSync("git", ["-C", editor.folder, "-c", "user.name=Ann", "-c", "user.email=ann@example.com", ...args]);
  git("init", "-q", "-b", "main");
  await put(".gitattributes", "*.txt diff=own\n");
  await put("a.txt", "one\n");
  git("add", ".");
  git("commit", "-q", "-m", "Begin\n\nWith words.");
  await put("a.txt", "two\n");
  await put("ä b.txt", "new");
  await put("ran.sh", `#!/bin/sh\ntouch "${at("ran")}"\n`);
  await chmod(at("ran.sh"), 0o700);
  for (const name of ["core.fsmonitor", "diff.external", "diff.own.textconv", "diff.own.command"]) git("config", name, at("ran.sh"));
  await editor.ask("[[vscode-git]]");
  await until(() => editor.items.some((item) => item.kind === "text" && item.text === "I have read it."));
  const results = editor.items.flatMap((item) => (item.kind === "call" ? [[item.state, item.result] as const] : []));
  assert.deepEqual(results.map(([state]) => state), ["completed", "completed", "completed"]);
  const files = [
    { path: "a.txt", status: "modified", staged: false },
    { path: "ran.sh", status: "untracked", staged: false },
    { path: "ä b.txt", status: "untracked", staged: false },
  ];
  assert.deepEqual(JSON.parse(results[0]![1]), { branch: "main", files });
  assert.match(results[1]![1], /^diff --git a\/a\.txt b\/a\.txt\n.*\n-one\n\+two\n$/s);
  const { commits } = JSON.parse(results[2]![1]) as { commits: { author: string; message: string }[] };
  assert.deepEqual(commits.map(({ author, message }) => [author, message]), [["Ann", "Begin\n\nWith words."]]);
  await assert.rejects(stat(at("ran")));
});

test("a folder without a repository has none to read", async () => {
  await editor.ask("[[vscode-git]]");
  await until(() => editor.items.some((item) => item.kind === "text" && item.text === "I have read it."));
  const results = editor.items.flatMap((item) => (item.kind === "call" ? [item.result] : []));
  assert.deepEqual(results, Array(3).fill("The workspace is not a git repository"));
});

test("an image that cannot be sent is told, and the message is there to be corrected", async () => {
  await put("text.png", "no image");
  await symlink("/etc", at("link"));
  await until(() => editor.agent.conversation?.session.info);
  for (const [path, why] of [["text.png", "is no PNG"], ["link/a.png", "leads through a link"], ["../a.png", "outside of the workspace"]]) {
    await editor.ask(`Look at @${path}`);
    await until(() => fake.user.messages.some((message) => message.includes(why!)), why);
    await until(() => editor.inserted.at(-1) === `Look at @${path}`);
  }
  assert.equal(editor.agent.state.messages.length, 0);
});

test("the view may run and load nothing but what the extension brings", () => {
  const policy = /content="([^"]+)"/.exec(editor.html)![1]!;
  const nonce = /script nonce="([0-9a-f]{32})"/.exec(editor.html)![1]!;
  assert.equal(policy, `default-src 'none'; style-src https://extension.test; script-src 'nonce-${nonce}'; img-src data:`);
  assert.equal(editor.html.match(/<script/g)!.length, 1);
});

test("a server that does not answer is told, with what to do", async () => {
  fake.workspace.settings = { url: "not an address" };
  await fake.commands.executeCommand("codelab.new");
  await until(() => fake.user.messages.some((message) => message.includes("is not an address")));
  fake.workspace.settings = { url: SERVER };
});
