/** What a page loads of this package: before it connects, and what more when it is needed. */

import { gzipSync } from "node:zlib";
import { build, type Metafile } from "esbuild";
import { expect, test } from "vitest";

const CONVERSATION = 'export { createConversation } from "./src/index.ts"';
/** Bytes, minified and compressed, of what a program imports. The libraries of the bindings are not counted. */
const SIZES = [
  ["a session", "browser", 'export { connect } from "./src/index.ts"', 10_900],
  ["a conversation", "browser", CONVERSATION, 15_000],
  ["a conversation, its tools and its journal", "browser", `${CONVERSATION}; export * from "./src/executing.ts"; export * from "./src/indexeddb.ts"`, 21_750],
  ["the reducer alone", "browser", 'export { EMPTY, reduce } from "./src/index.ts"', 4_050],
  ["React", "browser", 'export * from "./src/react.ts"', 15_300],
  ["Vue", "browser", 'export * from "./src/vue.ts"', 15_300],
  ["all for Node", "node", 'export * from "./src/node.ts"', 17_050],
  ["what executes calls", "browser", 'export * from "./src/executing.ts"', 5_400],
  ["what transfers large frames", "browser", 'export * from "./src/payloads.ts"', 2_350],
  ["the journal of a browser", "browser", 'export * from "./src/indexeddb.ts"', 1_650],
  ["what asks over HTTP", "browser", 'export * from "./src/over_http.ts"', 2_250],
  ["what tells why a connection is refused", "browser", 'export * from "./src/refusal.ts"', 850],
] as const;

/** What a script loads at once. */
function* loadedWith(name: string, outputs: Metafile["outputs"]): Generator<string> {
  yield name;
  for (const { path, kind } of outputs[name]!.imports) if (kind === "import-statement" && path in outputs) yield* loadedWith(path, outputs);
}

test.each(SIZES)("%s is small, and needs nothing else", async (name, platform, contents, most) => {
  const stdin = { contents, resolveDir: new URL("..", import.meta.url).pathname };
  const how = { bundle: true, minify: true, splitting: true, format: "esm", outdir: "out", write: false, metafile: true } as const;
  const { outputFiles, metafile } = await build({ stdin, platform, external: ["react", "vue"], ...how });
  const files = new Set(loadedWith(Object.keys(metafile.outputs).find((path) => metafile.outputs[path]!.entryPoint === "<stdin>")!, metafile.outputs));
  const loaded = outputFiles.filter(({ path }) => [...files].some((file) => path.endsWith(`/${file}`)));
  const size = loaded.reduce((sum, { contents: bytes }) => sum + gzipSync(bytes, { level: 9 }).length, 0);
  console.log(`${name}: ${loaded.reduce((sum, { contents: bytes }) => sum + bytes.length, 0)} bytes minified, ${size} compressed`);
  expect(loaded).toHaveLength(files.size);
  expect(size).toBeLessThanOrEqual(most);
});
