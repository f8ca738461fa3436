// The sampler's interface: what goes in, what comes out, and what is refused.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Logits, OnedrawError, Sampler, StopMatcher, distribution, explain, sample, streamVersion, version } from "onedraw";

const LOGITS = [1.5, 0.2, 3.1, -4];

/** The error that a call throws. */
function thrown(call) {
  try {
    call();
  } catch (error) {
    assert(error instanceof OnedrawError && error instanceof Error, String(error));
    assert.equal(error.name, "OnedrawError");
    return error;
  }
  assert.fail("nothing was thrown");
}

test("a draw tells what was asked", () => {
  const params = { temperature: 0.8, top_p: 0.9, seed: 42, logprobs: 2 };
  const drawn = sample(LOGITS, params);
  assert.equal(drawn.token, 2);
  assert.deepEqual([drawn.seed, drawn.position, drawn.sequence, drawn.rank], ["42", 0, 0, 1]);
  assert.deepEqual(drawn.logprobs.map(({ token, rank }) => [token, rank]), [[2, 1], [0, 2]]);
  assert.equal(drawn.probability, 0.8807970562111727);
  const plain = sample(LOGITS, { seed: 42 });
  assert.deepEqual([plain.probability, plain.logprob, plain.rank, plain.logprobs], [null, null, null, []]);
  const { tokens, probabilities, logprobs } = distribution(LOGITS, params);
  assert(tokens instanceof Uint32Array && probabilities instanceof Float64Array && logprobs instanceof Float64Array);
  assert.deepEqual([...tokens], [2, 0]);
  assert.equal(probabilities[0], drawn.probability);
  const { kept } = sample(LOGITS, { top_k: 3, kept: "ids", seed: 1 });
  assert.deepEqual([kept.count, kept.ids, kept.last.token], [3, [0, 1, 2], 1]);
});

test("logits may come in any array of numbers", () => {
  const logits = new Logits(4);
  logits.values.set(LOGITS);
  const rows = [LOGITS, new Float32Array(LOGITS), new Float64Array(LOGITS), logits];
  for (const seed of [1, 2, 3, 4, 5, 6, 7, 8]) {
    const tokens = rows.map((row) => sample(row, { temperature: 3, seed }).token);
    assert.deepEqual(tokens, Array(4).fill(tokens[0]));
  }
  // A longer row moves WebAssembly's memory; the view of the short one is still right when it is taken anew.
  sample(new Float32Array(2 ** 20), { seed: 1 });
  assert.deepEqual([...logits.values], [...new Float32Array(LOGITS)]);
  logits.free();
});

test("seeds are exact", () => {
  const largest = "18446744073709551615";
  for (const seed of [2n ** 64n - 1n, largest]) assert.equal(sample(LOGITS, { seed }).seed, largest);
  assert.equal(sample(LOGITS, { seed: 2 ** 53 - 1 }).seed, "9007199254740991");
  assert.equal(new Sampler({ seed: 2n ** 63n }).seed, "9223372036854775808");
  const drawn = new Set([1, 2, 3].map(() => new Sampler({ seed: -1 }).seed));
  assert.equal(drawn.size, 3);
  for (const seed of [2 ** 53, 1.5, NaN, -2, "", "1e3", 2n ** 64n, true, {}]) {
    const { kind, field } = thrown(() => sample(LOGITS, { seed }));
    assert.deepEqual([kind, field], ["param", "seed"], String(seed));
  }
});

test("parameters are those of the library", () => {
  const { params } = JSON.parse(new Sampler({ seed: 1 }).save());
  assert.equal(params.temperature, 1);
  const sampler = new Sampler({
    seed: 1,
    logit_bias: new Map([[3, 100]]),
    prompt_token_ids: BigInt64Array.of(0n, 1n),
    output_token_ids: Uint32Array.of(2),
    top_k: undefined,
  });
  assert.deepEqual([sampler.sample(LOGITS).token, sampler.position, [...sampler.output]], [3, 2, [2, 3]]);
});

test("a sampler goes on, back, and over a save", () => {
  const row = Float32Array.from({ length: 500 }, (_, i) => Math.fround((i * 37) % 101) / 20);
  const params = { seed: 5, temperature: 1.5, mirostat: 2, presence_penalty: 0.5 };
  const sampler = new Sampler(params);
  const tokens = Array.from({ length: 20 }, () => sampler.sample(row).token);
  assert(new Set(tokens).size > 10);
  sampler.rewind(8);
  assert.deepEqual([...sampler.output], tokens.slice(0, 8));
  const again = Sampler.load(sampler.save());
  assert.deepEqual(Array.from({ length: 12 }, () => sampler.sample(row).token), tokens.slice(8));
  assert.deepEqual(Array.from({ length: 12 }, () => again.sample(row).token), tokens.slice(8));
  sampler.takeBack({ length: 8, token: tokens[8], phrase: 0 });
  assert.notEqual(sampler.peek(row).token, tokens[8]);
  sampler.accept(7);
  assert.equal(sampler.output[8], 7);
  assert.equal(thrown(() => Sampler.load("{}")).kind, "saved");
});

test("a mask leaves what it names", () => {
  const sampler = new Sampler({ seed: 1, temperature: 2 });
  const mask = Uint32Array.of(0b1010);
  assert.deepEqual([...sampler.distribution(LOGITS, { mask }).tokens], [1, 3]);
  assert([1, 3].includes(sampler.sample(LOGITS, { mask }).token));
  assert.equal(thrown(() => sampler.sample(new Float32Array(40), { mask })).kind, "mask_too_short");
  assert.equal(thrown(() => sampler.sample(LOGITS, { mask: [10] })).field, "mask");
});

test("an explanation names every stage", () => {
  const { stages, token, seed } = explain([2, 1, 0.5, -3], { temperature: 0.5, top_k: 3, min_p: 0.1, seed: 1 });
  assert.deepEqual(stages.map(({ stage, tokens }) => [stage, tokens]), [["row", 4], ["temperature", 4], ["min_p", 2], ["top_k", 2]]);
  assert.equal(stages[2].removed[0].token, 2);
  assert.deepEqual(stages.map(({ border }) => border?.token), [undefined, undefined, 1, undefined]);
  assert.deepEqual([token, seed], [sample([2, 1, 0.5, -3], { temperature: 0.5, top_k: 3, min_p: 0.1, seed: 1 }).token, "1"]);
  for (const { nanoseconds } of stages) assert(Number.isInteger(nanoseconds) && nanoseconds >= 0);
});

test("errors have a kind, a field and a sentence", () => {
  const cases = [
    [() => sample(LOGITS, { top_q: 1 }), "param", "top_q", /did you mean `top_k`/],
    [() => sample(LOGITS, { top_p: 2 }), "param", "top_p", /top_p/],
    [() => sample(LOGITS, { temperature: NaN }), "param", "temperature", /finite/],
    [() => sample(LOGITS, { logit_bias: { 1: Infinity } }), "param", "logit_bias", /finite/],
    [() => sample(LOGITS, { temperature: "hot" }), "param", "temperature", /./],
    [() => sample(LOGITS, { stop: () => {} }), "param", "stop", /./],
    [() => sample(LOGITS, []), "param", "params", /object/],
    [() => sample(LOGITS, { allowed_token_ids: [9] }), "outside_vocabulary", "allowed_token_ids", /token 9/],
    [() => sample([1, NaN, 2]), "nan_logit", null, /token 1 is NaN/],
    [() => sample([1, Infinity]), "infinite_logit", null, /token 1 is \+inf/],
    [() => sample([]), "empty_row", null, /no logits/],
    [() => sample([-Infinity, -Infinity]), "nothing_left", null, /-inf/],
    [() => sample(new Float32Array(2 ** 20 + 1)), "vocabulary_too_large", null, /1048577/],
    [() => sample([1, null]), "param", "logits", /logit 1 is null/],
    [() => sample("123"), "param", "logits", /array/],
    [() => new Sampler().peek(LOGITS, -1), "param", "ahead", /-1/],
    [() => new Sampler().accept(1.5), "param", "token", /1.5/],
    [() => new Sampler().sampleUniform(LOGITS, 1), "uniform_out_of_range", null, /1/],
  ];
  for (const [call, kind, field, message] of cases) {
    const error = thrown(call);
    assert.deepEqual([error.kind, error.field], [kind, field], error.message);
    assert.match(error.message, message);
  }
});

test("a stop matcher shows what may be shown", () => {
  const text = (bytes) => new TextDecoder().decode(bytes);
  const matcher = new StopMatcher({ stop: "END", max_tokens: 100 });
  assert.equal(text(matcher.push(1, "the E").text), "the ");
  assert.equal(text(matcher.heldBack), "E");
  const last = matcher.push(2, "ND of");
  assert.deepEqual([text(last.text), last.finish_reason, last.stop_string, last.stop_token], ["", "stop", 0, null]);
  const banned = new StopMatcher({ banned_strings: ["rich tapestry"] });
  banned.push(5, "A");
  banned.push(9, " very rich");
  assert.deepEqual(banned.push(3, new TextEncoder().encode(" tapestry")).rewind, { length: 1, token: 9, phrase: 0 });
  assert.equal(text(banned.push(8, " fi").text), " fi");
  assert.equal(new StopMatcher({ eos_token_id: 7 }).push(7, "").finish_reason, "eos");
  assert.equal(thrown(() => matcher.push(1, 7)).field, "text");
});

test("versions", () => {
  assert.match(version, /^\d+\.\d+\.\d+$/);
  assert.equal(streamVersion, 1);
});
