// Bundles the tests into a folder, with a fake in place of the editor's API, and the view: node test/build.mjs FOLDER

import { build } from "esbuild";
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { bundleOptions, bundles } from "../build.mjs";

const [, , folder] = process.argv;
const fake = fileURLToPath(new URL("fake_vscode.ts", import.meta.url));
const names = readdirSync(new URL(".", import.meta.url)).filter((name) => name.endsWith(".test.ts"));

for (const name of names) {
  const options = bundleOptions(`test/${name}`, "node", {
    format: "cjs",
    platform: "node",
    minify: false,
    jsx: "automatic",
    jsxImportSource: "preact",
    outfile: `${folder}/${name.replace(/\.ts$/, ".cjs")}`,
    external: ["bufferutil", "utf-8-validate"],
  });
  await build({ ...options, alias: { ...options.alias, vscode: fake } });
}
await build({ ...bundles.view, outfile: `${folder}/view.js` });
