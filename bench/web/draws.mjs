// How long a draw takes in WebAssembly, as a multiple of a bare scan for the maximum of the same row, in the same engine and the
// same run; and how fast the story model writes. `crates/onedraw-web/build` comes first; then
//
//     node bench/web/draws.mjs
//
// Rounds take turns, and the least time of each counts. Every strategy's tokens are those of its first round.

import { readFileSync } from "node:fs";
import { cpus } from "node:os";

const built = new URL("../../target/npm/onedraw/", import.meta.url);
const { Logits, Sampler } = await import(new URL("index.js", built).href);
const { memory } = await import(new URL("engine.js", built).href);
const stories = await import(new URL("wasm/stories.js", built).href);

const VOCABULARY = 128_256;
const ROUNDS = 60;
const DRAWS = 20;

/** A module with one function: the largest of the numbers from one address to another, in four vectors of four. */
function scanner() {
  const section = (id, bytes) => [id, ...leb(bytes.length), ...bytes];
  const leb = (n) => (n < 128 ? [n] : [(n & 127) | 128, ...leb(n >> 7)]);
  const simd = (code, ...rest) => [0xfd, ...leb(code), ...rest];
  const [get, set] = [(local) => [0x20, local], (local) => [0x21, local]];
  const pmax = simd(0xeb);
  const lowest = simd(12, ...Array(4).fill([0, 0, 0x80, 0xff]).flat());
  const vectors = [2, 3, 4, 5];
  const body = [
    [1, 4, 0x7b],
    ...vectors.map((local) => [...lowest, ...set(local)]),
    [0x03, 0x40],
    ...vectors.map((local, i) => [...get(local), ...get(0), ...simd(0, 4, 16 * i), ...pmax, ...set(local)]),
    [...get(0), 0x41, 0xc0, 0x00, 0x6a, 0x22, 0, ...get(1), 0x49, 0x0d, 0, 0x0b],
    [...get(2), ...get(3), ...pmax, ...get(4), ...pmax, ...get(5), ...pmax, ...set(2)],
    ...vectors.map((_, lane) => [...get(2), ...simd(31, lane), ...(lane ? [0x97] : [])]),
    [0x0b],
  ].flat();
  const module = [
    ...[0, 97, 115, 109, 1, 0, 0, 0],
    ...section(1, [1, 0x60, 2, 0x7f, 0x7f, 1, 0x7d]),
    ...section(2, [1, 1, 101, 1, 109, 2, 0, 1]),
    ...section(3, [1, 0]),
    ...section(7, [1, 1, 115, 0, 0]),
    ...section(10, [1, ...leb(body.length), ...body]),
  ];
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(new Uint8Array(module)), { e: { m: memory } });
  return exports.s;
}

/** Uniform in (0, 1), the same on every run. */
let state = 1;
function uniform() {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return (state + 0.5) / 2 ** 32;
}

/** As crates/onedraw-bench has it: a bulk N(0, 3), and a head of 1,024 tokens after Zipf's law. */
function peaked(values) {
  const normal = () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
  for (let i = 0; i < values.length; i++) values[i] = i < 1024 ? 20 - 1.7 * Math.log(i + 1) : 3 * normal();
  for (let i = values.length - 1; i > 0; i--) {
    const j = Math.floor(uniform() * (i + 1));
    [values[i], values[j]] = [values[j], values[i]];
  }
}

const logits = new Logits(VOCABULARY);
const row = new Float32Array(VOCABULARY);
peaked(row);
logits.values.set(row);
const scan = scanner();
const begin = logits.values.byteOffset;
const most = row.reduce((best, x) => (x > best ? x : best));
if (scan(begin, begin + 4 * VOCABULARY) !== most) throw new Error("the scan is wrong");

const strategies = {
  "greedy": { temperature: 0 },
  "temperature 0.8": { temperature: 0.8 },
  "top-k 50 + top-p 0.9": { top_k: 50, top_p: 0.9 },
  "top-p 0.9, temperature 0.8": { temperature: 0.8, top_p: 0.9 },
  "min-p 0.05": { min_p: 0.05 },
};
const contenders = [["bare scan", null, () => { for (let i = 0; i < DRAWS; i++) scan(begin, begin + 4 * VOCABULARY); }]];
for (const [name, params] of Object.entries(strategies)) {
  const sampler = new Sampler({ ...params, seed: 1 });
  const tokens = (from) => Array.from({ length: DRAWS }, (_, ahead) => sampler.peek(from, ahead).token).join();
  contenders.push([name, tokens(logits), () => tokens(logits)]);
  if (name.startsWith("top-k")) contenders.push([`${name}, the row copied`, tokens(row), () => tokens(row)]);
}
const least = new Map();
for (let round = 0; round < ROUNDS; round++) {
  for (const [name, expected, run] of contenders) {
    const start = performance.now();
    const found = run();
    const time = ((performance.now() - start) * 1000) / DRAWS;
    if (expected !== null && found !== expected) throw new Error(`${name} draws other tokens`);
    least.set(name, Math.min(time, least.get(name) ?? Infinity));
  }
}
console.log(`${cpus()[0].model}, Node ${process.version}, V = ${VOCABULARY}, a peaked row`);
const floor = least.get("bare scan");
for (const [name, time] of least) console.log(`${name.padEnd(40)} ${time.toFixed(1).padStart(8)} µs ${(time / floor).toFixed(2).padStart(7)} x`);

stories.initSync({ module: new WebAssembly.Module(readFileSync(new URL("wasm/stories_bg.wasm", built))) });
const model = new stories.Stories(readFileSync(new URL("stories.safetensors", built)));
let best = 0;
for (let round = 0; round < 5; round++) {
  const writing = model.write("Once upon a time", "{}", "7");
  let tokens = 0;
  const [start, cpu] = [performance.now(), process.cpuUsage()];
  while (!writing.is_done()) tokens += JSON.parse(writing.step()).length;
  const seconds = Math.min((performance.now() - start) / 1000, process.cpuUsage(cpu).user / 1e6);
  best = Math.max(best, tokens / seconds);
  writing.free();
}
console.log(`the story of seed 7, one thread: ${best.toFixed(0)} tokens a second`);
