// The golden draws: what every implementation of onedraw must give. See golden/README.md.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

import { Logits, Sampler } from "onedraw";

const golden = pathToFileURL(`${process.env.ONEDRAW_ROOT}/golden/`);
/** The numbers of a golden file that JavaScript's own would round: seeds and bits, as text. */
const exact = (text) => text.replace(/"(seed|first_logprob_bits)":(\d{16,})/g, '"$1":"$2"');
const read = (name) => JSON.parse(exact(readFileSync(new URL(name, golden), "utf8")));

/** Philox4x32-10. */
function philox([k0, k1], [c0, c1, c2, c3]) {
  const high = (a, b) => Number((BigInt(a) * BigInt(b)) >> 32n);
  for (let round = 0; round < 10; round++) {
    const [h0, l0] = [high(0xd2511f53, c0), Math.imul(0xd2511f53, c0) >>> 0];
    const [h1, l1] = [high(0xcd9e8d57, c2), Math.imul(0xcd9e8d57, c2) >>> 0];
    [c0, c1, c2, c3] = [(h1 ^ c1 ^ k0) >>> 0, l1, (h0 ^ c3 ^ k1) >>> 0, l0];
    [k0, k1] = [(k0 + 0x9e3779b9) >>> 0, (k1 + 0xbb67ae85) >>> 0];
  }
  return [c0, c1, c2, c3];
}

const shapes = {
  wide: (h) => (h - 2 ** 23) / 2 ** 19,
  flat: (h) => (h - 2 ** 23) / 2 ** 30,
  peaked: (h) => (h - 2 ** 23) / 2 ** 21 + (h % 4096 === 0 ? 24 : 0),
  ties: (h) => (h % 8) * 0.5,
  holes: (h) => (h % 3 === 0 ? -Infinity : (h - 2 ** 23) / 2 ** 19),
};

function row({ shape, vocabulary, seed, logits }) {
  if (shape === "list") return Float32Array.from(logits, (x) => x ?? -Infinity);
  const values = new Float32Array(vocabulary);
  for (let i = 0; i < vocabulary; i += 4) {
    const words = philox([seed, 0], [i / 4, 0, 0, 0]);
    for (let j = 0; j < 4 && i + j < vocabulary; j++) values[i + j] = shapes[shape](words[j] >>> 8);
  }
  return values;
}

test("the words are those of the golden numbers", () => {
  const { philox: cases } = read("numbers.json");
  assert.equal(cases.length, 8);
  for (const { key, counter, words } of cases) assert.deepEqual(philox(key, counter), words);
});

test("every golden draw", () => {
  const cases = read("draws.json");
  assert.equal(cases.length, 216);
  const rows = new Map();
  for (const { row: description, params, tokens, uniform, kept, first_logprob_bits } of cases) {
    const name = JSON.stringify(description);
    const what = `${name} ${JSON.stringify(params)}`;
    if (!rows.has(name)) {
      const values = row(description);
      const logits = new Logits(values.length);
      logits.values.set(values);
      rows.set(name, logits);
    }
    const logits = rows.get(name);
    const sampler = new Sampler(params);
    assert.equal(sampler.seed, String(params.seed), what);
    assert.deepEqual(tokens.map((_, ahead) => sampler.peek(logits, ahead).token), tokens, what);
    const written = sampler.position;
    const at = (_, i) => {
      const { token } = sampler.sampleUniform(logits, i / 8);
      sampler.rewind(written);
      return token;
    };
    assert.deepEqual(uniform.map(at), uniform, what);
    const found = sampler.distribution(logits);
    assert.deepEqual([found.tokens.length, found.probabilities.length, found.logprobs.length], [kept, kept, kept], what);
    const bits = new BigUint64Array(found.logprobs.buffer, found.logprobs.byteOffset)[0];
    assert.equal(String(bits), String(first_logprob_bits), what);
    sampler.free();
  }
  assert.equal(rows.size, 8);
});
