// Bundles the extension: for the desktop and servers, for VS Code for the Web, and the view in its webview.

import { build } from "esbuild";
import { fileURLToPath } from "node:url";

const at = (path) => fileURLToPath(new URL(path, import.meta.url));

/** Takes what the sources of the other clients import from this package's modules, whatever is installed beside them. */
const ownModules = {
  name: "own modules",
  setup: ({ onResolve, resolve }) =>
    onResolve({ filter: /^(diff|marked)$/ }, ({ path, kind, pluginData }) =>
      pluginData ? undefined : resolve(path, { kind, resolveDir: at("."), pluginData: "here" }),
    ),
};

/** How each bundle is made. `client` is the entry of the TypeScript client. */
export const bundleOptions = (entry, client, more) => ({
  entryPoints: [at(entry)],
  bundle: true,
  minify: true,
  target: "es2022",
  alias: { "@codelab/client": at(`../typescript/src/${client}.ts`) },
  plugins: [ownModules],
  absWorkingDir: at("."),
  logLevel: "warning",
  ...more,
});

const host = { format: "cjs", external: ["vscode"] };
// Optional parts of ws that are native modules.
const node = { ...host, platform: "node", external: ["vscode", "bufferutil", "utf-8-validate"] };

export const bundles = {
  desktop: bundleOptions("src/desktop.ts", "node", { ...node, outfile: at("dist/desktop.js") }),
  web: bundleOptions("src/web.ts", "index", { ...host, platform: "browser", outfile: at("dist/web.js") }),
  view: bundleOptions("src/view/main.tsx", "index", {
    format: "iife",
    jsx: "automatic",
    jsxImportSource: "preact",
    outfile: at("dist/view.js"),
  }),
};

if (process.argv[1] === fileURLToPath(import.meta.url)) await Promise.all(Object.values(bundles).map(build));
