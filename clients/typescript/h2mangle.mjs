import { build } from "esbuild"; import { gzipSync } from "node:zlib";
const re=new RegExp("^("+process.argv[2]+")$");
const { outputFiles } = await build({ stdin: {contents:'export { createConversation } from "./src/index.ts"', resolveDir: process.cwd()}, platform:"browser", bundle:true, minify:true, splitting:true, format:"esm", outdir:"/tmp/h2out2", write:false, mangleProps: re});
console.log(gzipSync(outputFiles[0].contents,{level:9}).length);
