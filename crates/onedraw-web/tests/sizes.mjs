// What a page transfers, compressed as servers do it (brotli), and the limits of that.

import { readFileSync, readdirSync } from "node:fs";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const [folder] = process.argv.slice(2);

/** The bytes of files together, each compressed. */
function size(names, compress) {
  return names.map((name) => compress(readFileSync(`${folder}/${name}`)).length).reduce((a, b) => a + b, 0);
}

const modules = readdirSync(folder).filter((name) => name.endsWith(".js"));
const sampler = ["wasm/sampler_bg.wasm", "wasm/sampler.js", ...modules.filter((name) => !/stories|thread/.test(name))];
const model = ["wasm/stories_bg.wasm", "wasm/stories.js", "stories.js", "stories-worker.js", "thread.js", "load.js", "error.js", "params.js"];
const page = [...new Set([...sampler, ...model]), "stories.safetensors"];
const brotli = (bytes) => brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: bytes.length > 5e6 ? 5 : 11 } });
for (const [name, files, limit] of [
  ["the sampler", sampler, 400_000],
  ["the model's code", model, 1_200_000],
  ["a page with the model", page, 14_000_000],
]) {
  const [small, plain] = [size(files, brotli), size(files, (bytes) => gzipSync(bytes, { level: 9 }))];
  console.log(`${name}: ${small} bytes with brotli (at most ${limit}), ${plain} with gzip`);
  if (small > limit) throw new Error(`${name} has become too large`);
}
