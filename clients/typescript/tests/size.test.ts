/** What a page loads of this package. */

import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { expect, test } from "vitest";

/** Bytes, minified and compressed, of what a program imports. The libraries of the bindings are not counted. */
const SIZES = [
  ["a session", "browser", 'export { connect } from "./src/index.ts"', 18_800],
  ["a conversation", "browser", 'export { createConversation } from "./src/index.ts"', 24_000],
  ["the reducer alone", "browser", 'export { EMPTY, reduce } from "./src/index.ts"', 4_600],
  ["React", "browser", 'export * from "./src/react.ts"', 24_300],
  ["Vue", "browser", 'export * from "./src/vue.ts"', 24_300],
  ["all for Node", "node", 'export * from "./src/node.ts"', 26_000],
] as const;

test.each(SIZES)("%s is small, and needs nothing else", async (name, platform, contents, most) => {
  const stdin = { contents, resolveDir: new URL("..", import.meta.url).pathname };
  const external = ["react", "vue"];
  const built = await build({ stdin, bundle: true, minify: true, format: "esm", platform, external, write: false });
  const bytes = built.outputFiles[0]?.contents ?? new Uint8Array();
  const size = gzipSync(bytes, { level: 9 }).length;
  console.log(`${name}: ${bytes.length} bytes minified, ${size} compressed`);
  expect(size).toBeLessThanOrEqual(most);
});
