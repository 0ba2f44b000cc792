/** What every journal promises: a call is new once, and its first outcome counts. */

import "fake-indexeddb/auto";

import { chmod, mkdir, mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";

import { fileJournal, indexedDbJournal, memoryJournal, type OpenJournal } from "../src/node.ts";

const folder = await mkdtemp(join(tmpdir(), "codelab-journal-"));
afterAll(() => rm(folder, { recursive: true }));

const KINDS: Record<string, () => OpenJournal> = {
  memory: memoryJournal,
  files: () => fileJournal(folder),
  indexeddb: () => indexedDbJournal(),
};

describe.each(Object.entries(KINDS))("%s", (kind, openJournal) => {
  const open = openJournal();
  let sessions = 0;
  const scope = (): string => `ws://host/{session_id}#ann#${kind}-${sessions++}`;

  test("a call is new once, whoever asks", async () => {
    const name = scope();
    const [one, two] = [await open(name), await open(name)];
    const claims = await Promise.all([one.begin("c", 1), two.begin("c", 1), one.begin("c", 1)]);
    expect(claims.filter((claim) => claim.state === "new")).toHaveLength(1);
    expect(await one.finish("c", { result: { a: "ü" } })).toEqual({ result: { a: "ü" } });
    expect(await two.finish("c", { result: "later" })).toEqual({ result: { a: "ü" } });
    expect(await two.begin("c", 1)).toEqual({ state: "finished", outcome: { result: { a: "ü" } } });
    await one.close();
    await two.close();
  });

  test("a call is interrupted when its client is gone", async () => {
    const name = scope();
    const [one, two] = [await open(name), await open(name)];
    await one.begin("c", 7);
    // Node 20 has no Web Locks, so that with IndexedDB every other client counts as gone.
    if (kind !== "indexeddb" || globalThis.navigator?.locks) {
      expect(await two.begin("c", 7)).toEqual({ state: "running" });
      expect(await two.unsettled()).toEqual([{ callId: "c", seq: 7, interrupted: false }]);
    }
    await one.close();
    expect(await two.begin("c", 7)).toEqual({ state: "interrupted" });
    expect(await two.unsettled()).toEqual([{ callId: "c", seq: 7, interrupted: true }]);
    await two.close();
  });

  test("unsettled calls come oldest first, until they are settled", async () => {
    const journal = await open(scope());
    for (const [id, seq] of [["../b", 2], ["a\0", 1], ["c".repeat(1_000), 10]] as const) {
      await journal.begin(id, seq);
      await journal.finish(id, { error: { code: "TIMEOUT", message: id } });
    }
    expect((await journal.unsettled()).map((entry) => entry.seq)).toEqual([1, 2, 10]);
    await journal.settle("a\0");
    expect((await journal.unsettled()).map((entry) => entry.seq)).toEqual([2, 10]);
    expect((await journal.begin("a\0", 1)).state).toBe("finished");
    await journal.close();
  });

  test("what was decided is kept, until the session is forgotten", async () => {
    const [name, other] = [scope(), scope()];
    const [journal, apart] = [await open(name), await open(other)];
    await journal.decide!("call:../c", "one");
    await journal.decide!("call:../c", "two");
    expect(await apart.decided!("call:../c")).toBeUndefined();
    expect(await journal.unsettled()).toEqual([]);
    await journal.close();
    const again = await open(name);
    expect(await again.decided!("call:../c")).toBe("two");
    await again.forget();
    expect(await again.decided!("call:../c")).toBeUndefined();
    await again.close();
    await apart.close();
  });

  test("a position is kept, sessions are apart, and a session can be forgotten", async () => {
    const [name, other] = [scope(), scope()];
    const [journal, apart] = [await open(name), await open(other)];
    expect(await journal.position()).toBe(0);
    await journal.setPosition(5);
    await journal.setPosition(12);
    await journal.begin("c", 1);
    expect(await apart.position()).toBe(0);
    expect(await apart.unsettled()).toEqual([]);
    await journal.close();
    const again = await open(name);
    expect(await again.position()).toBe(12);
    await again.forget();
    expect(await again.position()).toBe(0);
    expect((await again.begin("c", 1)).state).toBe("new");
    await again.close();
    await apart.close();
  });
});

test("a folder that cannot be used is a clear error", async () => {
  const file = join(folder, "file");
  await writeFile(file, "");
  await expect(fileJournal(file)("s")).rejects.toMatchObject({ kind: "journal", message: expect.stringContaining("XDG_STATE_HOME") });
});

test("sockets of dead processes do not pile up", async () => {
  await writeFile(join(folder, "00000000-0000-4000-8000-000000000000.sock"), "");
  await (await fileJournal(folder)("s")).close();
  expect((await readdir(folder)).filter((name) => name.endsWith(".sock"))).toEqual([]);
});

test.skipIf(process.platform === "win32")("nobody else can look into the folder of the files, whoever made it", async () => {
  const open = join(folder, "open");
  await mkdir(open, { mode: 0o755 });
  await chmod(open, 0o777);
  const journal = await fileJournal(open)("ws://host/{session_id}#ann#s");
  await journal.begin("c", 1);
  await journal.finish("c", { result: "secret" });
  const modes = async (path: string): Promise<number[]> => {
    const entries = await readdir(path, { withFileTypes: true });
    const below = entries.map((entry) => (entry.isDirectory() ? modes(join(path, entry.name)) : []));
    const files = entries.filter((entry) => entry.isFile() || entry.isDirectory()).map((entry) => stat(join(path, entry.name)));
    return [...(await Promise.all(files)).map((found) => found.mode & 0o077), ...(await Promise.all(below)).flat()];
  };
  expect((await stat(open)).mode & 0o777).toBe(0o700);
  expect(new Set(await modes(open))).toEqual(new Set([0]));
  await journal.close();
});
