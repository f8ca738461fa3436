// Fifty random settings: a link opened in the page shows the text that the program writes.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { openPage, program, startBrowser, startServer, written } from "./support.mjs";

let server;
let browser;
before(async () => ([server, browser] = await Promise.all([startServer(), startBrowser()])));
after(() => Promise.all([server?.stop(), browser?.close()]));

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

/** Parameters of which about a third is set. */
function randomParams(next) {
  const between = (least, most) => Math.round((least + (most - least) * next()) * 100) / 100;
  const whole = (least, most) => Math.floor(least + (most - least + 1) * next());
  const kinds = {
    temperature: () => between(0.2, 2),
    top_k: () => whole(1, 80),
    top_p: () => between(0.3, 1),
    min_p: () => between(0.01, 0.3),
    typical_p: () => between(0.3, 1),
    top_n_sigma: () => between(0.5, 3),
    epsilon_cutoff: () => between(0.01, 0.1),
    eta_cutoff: () => between(0.01, 0.1),
    top_a: () => between(0.01, 0.5),
    xtc_probability: () => between(0.1, 1),
    dynatemp_range: () => between(0.1, 0.5),
    repetition_penalty: () => between(0.8, 1.5),
    frequency_penalty: () => between(-0.5, 1),
    presence_penalty: () => between(-0.5, 1),
    dry_multiplier: () => between(0.1, 1),
    no_repeat_ngram_size: () => whole(2, 4),
    smoothing_factor: () => between(0.1, 1),
    min_tokens: () => whole(1, 8),
  };
  const params = {};
  for (const [name, value] of Object.entries(kinds)) if (next() < 0.3) params[name] = value();
  return { ...params, seed: String(Math.floor(next() * 2 ** 53)), max_tokens: LENGTH };
}

test("fifty random settings: the page's text is the program's", async (t) => {
  const page = await openPage(t, browser, server.url);
  const next = random(28);
  for (let each = 0; each < CASES; each++) {
    const params = randomParams(next);
    const prompt = PROMPTS[each % PROMPTS.length];
    const answered = page.evaluate(
      async (state) => {
        const response = await fetch("lab/share", {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ state }),
        });
        return JSON.parse(await response.text()).fragment;
      },
      { prompt, params, order: null, forced: [], draft: null, schema: null },
    );
    const printing = program(
      "generate",
      prompt,
      "--params",
      JSON.stringify({ ...params, seed: Number(params.seed) }),
      "--format",
      "json",
    );
    const [fragment, printed] = await Promise.all([answered, printing]);
    await page.evaluate((hash) => (window.location.hash = hash), fragment);
    await page.waitForFunction((seed) => document.querySelector("#seed").value === seed, params.seed);
    const { text, tokens } = JSON.parse(printed);
    const told = JSON.stringify({ prompt, params });
    const shown = await written(page);
    const ids = await page.$$eval("#text-main [role=option]", (all) => all.map((token) => Number(token.dataset.token)));
    assert.deepEqual(ids, tokens, told);
    // A token that is a part of a character has a mark in its place.
    if (!shown.includes("\ufffd")) assert.equal(shown, text, told);
  }
});
