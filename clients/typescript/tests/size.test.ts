/** What a page loads of this package. */

import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { expect, test } from "vitest";

/** Bytes, minified and compressed. */
const MOST = 18_000;

test.each(["src/index.ts", "src/node.ts"])("%s is small, and needs nothing else", async (entry) => {
  const platform = entry.includes("node") ? "node" : "browser";
  const built = await build({ entryPoints: [entry], bundle: true, minify: true, format: "esm", platform, write: false });
  const bytes = built.outputFiles[0]?.contents ?? new Uint8Array();
  const size = gzipSync(bytes, { level: 9 }).length;
  console.log(`${entry}: ${bytes.length} bytes minified, ${size} compressed`);
  expect(size).toBeLessThanOrEqual(MOST);
});
