import { build, analyzeMetafile } from "esbuild";
import { gzipSync } from "node:zlib";
import fs from "node:fs";
const [,, contents='export { createConversation } from "./src/index.ts"', platform="browser"] = process.argv;
const { outputFiles, metafile } = await build({ stdin: {contents, resolveDir: process.cwd()}, platform, bundle:true, minify:true, splitting:true, format:"esm", outdir:"/tmp/h2out", write:false, metafile:true, external:["react","vue"], ...(process.env.EXTRA?JSON.parse(process.env.EXTRA):{}) });
fs.mkdirSync("/tmp/h2out",{recursive:true});
for (const f of outputFiles) { fs.writeFileSync(f.path, f.contents); console.log(f.path, f.contents.length, gzipSync(f.contents,{level:9}).length); }
console.log(await analyzeMetafile(metafile));
