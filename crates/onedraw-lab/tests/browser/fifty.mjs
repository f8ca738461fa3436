// Fifty random settings, and whether a page shows of each the text that the program writes.

import assert from "node:assert/strict";

import { program, written } from "./support.mjs";

const PROMPTS = ["Once upon a time", "Tom saw a big", "The dragon was sad because", "Lily and Ben went to the"];
const CASES = 50;
const LENGTH = 12;

/** Numbers that are the same in every run (mulberry32). */
function random(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/**
 * Parameters of which about a third is set, and an order of the stages, or null.
 * @param {() => number} next
 * @param {string[]} stages all of them
 */
function randomSetting(next, stages) {
  const between = (least, most) => Math.round((least + (most - least) * next()) * 100) / 100;
  const whole = (least, most) => Math.floor(least + (most - least + 1) * next());
  const some = (all) => all.filter(() => next() < 0.5);
  const truncations = {
    top_k: () => whole(1, 80),
    top_p: () => between(0.3, 1),
    min_p: () => between(0.01, 0.3),
    typical_p: () => between(0.3, 1),
    top_n_sigma: () => between(0.5, 3),
    epsilon_cutoff: () => between(0.01, 0.1),
    eta_cutoff: () => between(0.01, 0.1),
    top_a: () => between(0.01, 0.5),
    xtc_probability: () => between(0.1, 1),
  };
  const steering = { mirostat: () => whole(1, 2), mirostat_tau: () => between(1, 6) };
  const others = {
    temperature: () => between(0.2, 2),
    dynatemp_range: () => between(0.1, 0.5),
    repetition_penalty: () => between(0.8, 1.5),
    frequency_penalty: () => between(-0.5, 1),
    presence_penalty: () => between(-0.5, 1),
    dry_multiplier: () => between(0.1, 1),
    no_repeat_ngram_size: () => whole(2, 4),
    smoothing_factor: () => between(0.1, 1),
    min_tokens: () => whole(1, 8),
    banned_strings: () => some([" was", " a ", "the", "."]),
    bad_words: () => some(["and", "big", "He"]),
    stop: () => some([" and", "!", "ing"]),
    logit_bias: () => ({ [whole(1, 4095)]: between(-4, 8), [whole(1, 4095)]: -100 }),
  };
  // Mirostat decides how many tokens stay; beside it no other stage may.
  const isSteered = next() < 0.2;
  const params = isSteered ? { mirostat: steering.mirostat(), mirostat_tau: steering.mirostat_tau() } : {};
  for (const [name, value] of Object.entries(isSteered ? others : { ...others, ...truncations }))
    if (next() < 0.3) params[name] = value();
  const seed = (BigInt(whole(0, 2 ** 32 - 1)) << 32n) | BigInt(whole(0, 2 ** 32 - 1));
  const order = !isSteered && next() < 0.3 ? shuffled(stages, next) : null;
  return { params: { ...params, seed: String(seed), max_tokens: LENGTH }, order };
}

/** @param {string[]} list @param {() => number} next */
function shuffled(list, next) {
  return list
    .map((item) => ({ item, at: next() }))
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item);
}

/** Asks a question of the laboratory of a server. */
async function asked(server, question, body) {
  const headers = { "content-type": "application/json" };
  const response = await fetch(`${server.url}/lab/${question}`, {
    method: "POST",
    headers,
    body: JSON.stringify(body),
  });
  const text = await response.text();
  assert.equal(response.status, 200, text);
  return JSON.parse(text);
}

/**
 * Opens links that a server made, one after the other.
 * @param page a page of the laboratory, with or without a server
 * @param {{ url: string }} server
 */
export async function showsFifty(page, server) {
  const { orders } = await asked(server, "about", {});
  const next = random(28);
  const set = new Map();
  let failures = 0;
  for (let each = 0; each < CASES; each++) {
    const { params, order } = randomSetting(next, orders.vllm);
    for (const name of [...Object.keys(params), ...(order === null ? [] : ["order"])])
      set.set(name, (set.get(name) ?? 0) + 1);
    const prompt = PROMPTS[each % PROMPTS.length];
    const state = { prompt, params, order, forced: [], draft: null, schema: null };
    // JSON has all seeds; JavaScript's numbers have not.
    const flat = JSON.stringify(order === null ? params : { ...params, order }).replace(/"seed":"(\d+)"/, '"seed":$1');
    const [{ fragment }, printed] = await Promise.all([
      asked(server, "share", { state }),
      program("generate", prompt, "--params", flat, "--format", "json").catch(({ stderr }) => stderr),
    ]);
    await page.evaluate((hash) => (window.location.hash = hash), fragment);
    await page.waitForFunction((seed) => document.querySelector("#seed").value === seed, params.seed);
    const told = JSON.stringify(state);
    const shown = await written(page);
    if (!printed.startsWith("{")) {
      // Stages and bans may leave no token, which both say in the same words.
      const why = printed.match(/no token is left.*/)?.[0];
      assert.ok(why !== undefined, `${printed} ${told}`);
      assert.equal(await page.textContent(".notice.wrong p"), why, told);
      failures++;
      continue;
    }
    const { text, tokens } = JSON.parse(printed);
    const ids = await page.$$eval("#text-main [role=option]", (all) => all.map((token) => Number(token.dataset.token)));
    assert.deepEqual(ids, tokens, told);
    // A token that is a part of a character has a mark in its place, and one that completes a stop string is no text.
    if (!shown.includes("\ufffd") && params.stop === undefined) assert.equal(shown, text, told);
  }
  assert.ok(failures <= 5, `${failures} settings leave no token`);
  // All kinds of settings were among them, and no link was warned about.
  for (const name of ["mirostat", "dry_multiplier", "banned_strings", "bad_words", "stop", "logit_bias", "order"])
    assert.ok(set.get(name) >= 3, `${name}: ${set.get(name)}`);
  assert.deepEqual(await page.$$eval(".notice", (notices) => notices.map((notice) => notice.textContent)), []);
}
