/** What a page loads of this package. */

import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { expect, test } from "vitest";

/** Bytes, minified and compressed: of what a page loads, and of what Node does. */
const SIZES = [["src/index.ts", 19_000], ["src/node.ts", 21_000]] as const;

test.each(SIZES)("%s is small, and needs nothing else", async (entry, most) => {
  const platform = entry.includes("node") ? "node" : "browser";
  const built = await build({ entryPoints: [entry], bundle: true, minify: true, format: "esm", platform, write: false });
  const bytes = built.outputFiles[0]?.contents ?? new Uint8Array();
  const size = gzipSync(bytes, { level: 9 }).length;
  console.log(`${entry}: ${bytes.length} bytes minified, ${size} compressed`);
  expect(size).toBeLessThanOrEqual(most);
});
