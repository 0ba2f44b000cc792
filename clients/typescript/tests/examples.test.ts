/** The client takes every example of a server's frame in our documents, and its own frames are valid. */

import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";

import { readFrame } from "../src/events.ts";

const DOCUMENT = new URL("../../../docs/schemas/frames.json", import.meta.url);

interface Schema {
  $ref?: string;
  oneOf?: Schema[];
  examples?: Record<string, unknown>[];
}

const { $defs } = JSON.parse(await readFile(DOCUMENT, "utf8")) as { $defs: Record<string, Schema> };
const frames = ($defs["ServerFrame"]?.oneOf ?? []).map(({ $ref = "" }) => $ref.split("/").at(-1) as string);

test("there are examples", () => expect(frames.length).toBeGreaterThan(15));

test.each(frames)("%s", (name) => {
  const { examples = [] } = $defs[name] as Schema;
  expect(examples).not.toEqual([]);
  for (const example of examples) expect(readFrame(example)).toBe(example);
});
