/** Which paths are protected is said by the server's table: PROTECTED_PATHS has paths and what Python says of them. */

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { isProtected, mayHoldProtected } from "../src/protected.ts";

const file = process.env["PROTECTED_PATHS"];

test.skipIf(!file)("they are the server's", () => {
  const told: [path: string, isProtected: boolean, mayHold: boolean][] = JSON.parse(readFileSync(file!, "utf8"));
  expect(told.length).toBeGreaterThan(400);
  const wrong = told.filter(([path, is, may]) => isProtected(path) !== is || mayHoldProtected(path) !== may);
  expect(wrong).toEqual([]);
});
