// The story model in its worker: the texts that onedraw writes everywhere, streams, cancelling, and weights that are no
// weights.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";

import { OnedrawError, loadStories } from "onedraw/stories";

const root = pathToFileURL(`${process.env.ONEDRAW_ROOT}/`);
const weights = () => new Uint8Array(readFileSync(new URL("models/stories/model.safetensors", root)));
/** What the golden texts were drawn with where they say nothing; the model's own settings would stand there. */
const PLAIN = { temperature: 1, top_k: 0, top_p: 1, order: "vllm" };

/** @type {import("onedraw/stories").Stories} */
let stories;
before(async () => {
  stories = await loadStories();
});
after(() => stories.close());

test("seed 7 writes the story of the README", async () => {
  const readme = readFileSync(new URL("README.md", root), "utf8");
  const story = readme.match(/^> (Once upon a time.*)\n> (.*) …$/m);
  const [{ text, finish_reason, tokens }] = await stories.write("Once upon a time", { seed: 7 });
  assert(`Once upon a time${text}`.startsWith(`${story[1]}\n${story[2]}`), text);
  assert.equal(finish_reason, "eos");
  assert.equal(tokens[0].seed, "7");
});

test("every golden story", async () => {
  const text = readFileSync(new URL("golden/stories.json", root), "utf8");
  const cases = JSON.parse(text.replace(/"seed":\s*(\d{16,})/g, '"seed":"$1"'));
  assert.equal(cases.length, 9);
  // All at once: no text depends on another.
  const written = cases.map(([{ prompt, params }]) => stories.write(prompt, { ...PLAIN, ...params }));
  for (const [i, texts] of cases.entries()) {
    const found = await written[i];
    assert.equal(found.length, texts.length);
    for (const [number, { prompt, params, text, tokens, finish }] of texts.entries()) {
      const what = JSON.stringify([prompt, params, number]);
      assert.equal(found[number].text, text, what);
      assert.deepEqual(found[number].tokens.map(({ token }) => token), tokens, what);
      assert.equal(found[number].finish_reason, finish, what);
    }
  }
});

test("leaving a stream ends it, and an abort too", async () => {
  let text = "";
  for await (const event of stories.stream("Once upon a time", { seed: 7 })) {
    text += event.text;
    if (text.length > 20) break;
  }
  assert(", there was a little girl named Lily.".startsWith(text.slice(0, 30)), text);
  const cancel = new AbortController();
  let count = 0;
  const read = async () => {
    for await (const _ of stories.stream("Once", { seed: 1 }, { signal: cancel.signal })) {
      if (++count === 3) cancel.abort(new Error("enough"));
    }
  };
  await assert.rejects(read, /enough/);
  assert.equal(count, 3);
  // The worker is free for the next one.
  const [next] = await stories.write("Once upon a time", { seed: 7, max_tokens: 5 });
  assert.deepEqual([next.tokens.length, next.finish_reason], [5, "length"]);
});

test("tokens and text", async () => {
  const tokens = await stories.encode("Once upon a time");
  assert(tokens instanceof Uint32Array && tokens.length > 2);
  assert.equal(await stories.decode(tokens), "Once upon a time");
});

test("a request that cannot be answered is an error with its field", async () => {
  const refused = (params, prompt = "Once") => stories.write(prompt, params).then(assert.fail, (error) => error);
  const cases = [
    [{ top_q: 1 }, "param", "top_q"],
    [{ top_p: 2 }, "param", "top_p"],
    [{ seed: 2 ** 60 }, "param", "seed"],
    [{ logit_bias: { 5000: 1 } }, "outside_vocabulary", "logit_bias"],
  ];
  for (const [params, kind, field] of cases) {
    const error = await refused(params);
    assert(error instanceof OnedrawError, String(error));
    assert.deepEqual([error.kind, error.field], [kind, field], error.message);
  }
  const long = await refused({}, "cat ".repeat(600));
  assert.equal(long.kind, "model");
  assert.match(long.message, /context of 512/);
});

test("weights may be given, and come with progress", async () => {
  const file = weights();
  const own = await loadStories({ weights: file });
  assert.equal(file.length, 11_596_224);
  assert.match((await own.write("Once upon a time", { seed: 7, max_tokens: 8 }))[0].text, /^, there was/);
  own.close();
  await assert.rejects(own.write("Once"), { name: "OnedrawError", kind: "closed" });
  const server = createServer((request, response) => {
    const cut = request.url === "/cut";
    if (request.url === "/none") return response.writeHead(404).end();
    response.writeHead(200, { "content-length": file.length });
    response.write(file.subarray(0, 5_000_000), () => (cut ? response.destroy() : response.end(file.subarray(5_000_000))));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  const at = (path) => `http://127.0.0.1:${server.address().port}${path}`;
  try {
    const steps = [];
    const fetched = await loadStories({ weights: at("/whole"), progress: (step) => steps.push(step) });
    fetched.close();
    assert.deepEqual(steps.at(-1), { loaded: file.length, total: file.length });
    assert(steps.every(({ loaded }, i) => i === 0 || loaded > steps[i - 1].loaded));
    await assert.rejects(loadStories({ weights: at("/none") }), { name: "OnedrawError", kind: "fetch", message: /404/ });
    await assert.rejects(loadStories({ weights: at("/cut") }), { name: "OnedrawError" });
  } finally {
    server.close();
  }
});

test("weights that are none are refused with a sentence", async () => {
  const file = weights();
  const other = Uint8Array.from(file);
  other.set(new TextEncoder().encode('{"model.embed_tokens.weighT"'), 8);
  for (const wrong of [file.slice(0, 5_000_000), file.slice(0, 4), new Uint8Array(0), new Uint8Array(1000), other]) {
    await assert.rejects(loadStories({ weights: wrong }), (error) => {
      assert(error instanceof OnedrawError);
      assert.equal(error.kind, "model");
      assert(error.message.length > 20, error.message);
      return true;
    });
  }
  await assert.rejects(loadStories({ weights: new URL("file:///nowhere/model.safetensors") }), { name: "OnedrawError", kind: "fetch" });
  const cancelled = AbortSignal.abort(new Error("not now"));
  await assert.rejects(loadStories({ signal: cancelled }), /not now/);
});
