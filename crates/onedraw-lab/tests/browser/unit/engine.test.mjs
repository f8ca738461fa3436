// Questions and answers: the lines of a server, the messages of a worker, texts and looks.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Failure, askOnce } from "../../../page/engine/contract.js";
import { linesOf } from "../../../page/engine/lines.js";
import { ServerEngine } from "../../../page/engine/server.js";
import { Serving } from "../../../page/engine/serving.js";
import { WorkerEngine } from "../../../page/engine/worker.js";
import { Looks } from "../../../page/model/looks.js";
import { Runs, take, textOf } from "../../../page/model/runs.js";

const turn = () => new Promise((resolve) => setTimeout(resolve, 0));

async function all(lines) {
  const found = [];
  for await (const line of lines) found.push(line);
  return found;
}

function streamOf(...pieces) {
  const bytes = pieces.map((piece) => (typeof piece === "string" ? new TextEncoder().encode(piece) : piece));
  return new ReadableStream({
    start(controller) {
      for (const piece of bytes) controller.enqueue(piece);
      controller.close();
    },
  });
}

/** Answers each request of a test with the next response. */
function serve(t, ...responses) {
  const requests = [];
  t.mock.method(globalThis, "fetch", async (path, options) => {
    requests.push({ path, ...options });
    const next = responses.shift();
    if (next instanceof Error) throw next;
    return next;
  });
  return requests;
}

test("lines are put together, wherever the stream is cut", async () => {
  const bytes = new TextEncoder().encode('{"text":"é"}\n{"b":2}\n\n{"c":3}');
  for (let cut = 1; cut < bytes.length; cut++) {
    assert.deepEqual(await all(linesOf(streamOf(bytes.slice(0, cut), bytes.slice(cut)))), [
      { text: "é" },
      { b: 2 },
      { c: 3 },
    ]);
  }
});

test("a line that is cut off is a failure with a sentence", async () => {
  await assert.rejects(all(linesOf(streamOf('{"a":1}\n{"b"'))), { kind: "cut", message: /cut off/ });
});

test("the server is asked with POST, and its error is a failure with the field", async (t) => {
  const line = { kind: "error", error: { kind: "parameter", message: "top_p must be at most 1", field: "top_p" } };
  const requests = serve(t, new Response(`${JSON.stringify(line)}\n`));
  const engine = new ServerEngine(async () => null);
  await assert.rejects(askOnce(engine, "write", { prompt: "a" }), (error) => {
    assert.ok(error instanceof Failure);
    assert.deepEqual([error.kind, error.message, error.field], ["parameter", "top_p must be at most 1", "top_p"]);
    return true;
  });
  assert.deepEqual([requests[0].path, requests[0].method, requests[0].body], ["lab/write", "POST", '{"prompt":"a"}']);
});

test("a key is asked for until the server takes it, and then sent each time", async (t) => {
  const ok = () => new Response('{"a":1}\n');
  const requests = serve(t, new Response("", { status: 401 }), new Response("", { status: 401 }), ok(), ok());
  const asked = [];
  const engine = new ServerEngine(async (message) => {
    asked.push(message);
    return `key ${asked.length}`;
  });
  assert.deepEqual(await askOnce(engine, "about", {}), { a: 1 });
  await askOnce(engine, "about", {});
  assert.deepEqual(asked, ["This server asks for a key.", "The server does not know this key."]);
  const sent = requests.map(({ headers }) => headers.authorization);
  assert.deepEqual(sent, [undefined, "Bearer key 1", "Bearer key 2", "Bearer key 2"]);
});

test("a key that is not given, a server that is gone and an unknown status are sentences", async (t) => {
  const body = JSON.stringify({ error: { message: "too many requests", code: "busy" } });
  serve(
    t,
    new Response("", { status: 401 }),
    new TypeError("fetch failed"),
    new Response("<html>", { status: 502 }),
    new Response(body, { status: 429 }),
  );
  const engine = new ServerEngine(async () => null);
  const messages = [/does not answer without its key/, /cannot be reached/, /status 502/, /^too many requests$/];
  for (const message of messages) await assert.rejects(askOnce(engine, "about", {}), { message });
});

test("a worker's messages are the lines of an answer, and who stops listening says so", async () => {
  const sent = [];
  const worker = { postMessage: (message) => sent.push(message), onmessage: null, onerror: null };
  const engine = new WorkerEngine(worker);
  const answer = all(engine.ask("write", { prompt: "a" }));
  await turn();
  worker.onmessage({ data: { ask: 0, line: { a: 1 } } });
  worker.onmessage({ data: { ask: 7, line: { of: "nobody" } } });
  await turn();
  worker.onmessage({ data: { ask: 0, line: { b: 2 } } });
  worker.onmessage({ data: { ask: 0, done: true } });
  assert.deepEqual(await answer, [{ a: 1 }, { b: 2 }]);
  assert.deepEqual(sent, [
    { ask: 0, question: "write", body: { prompt: "a" } },
    { ask: 0, stop: true },
  ]);

  const stop = new AbortController();
  const stopped = all(engine.ask("write", {}, stop.signal));
  await turn();
  stop.abort();
  await assert.rejects(stopped, { name: "AbortError" });
  assert.deepEqual(sent.at(-1), { ask: 1, stop: true });

  const broken = all(engine.ask("write", {}));
  await turn();
  worker.onerror();
  await assert.rejects(broken, { kind: "worker", message: /Reload/ });
});

test("tokens are taken back, and the text is that of the tokens left", () => {
  const run = { tokens: [], passes: [], prompt: [], status: "writing" };
  const token = (position, text) => ({ kind: "token", position, text });
  const lines = [
    { kind: "begin", seed: "9", prompt: [] },
    token(0, " a"),
    token(1, " b"),
    { kind: "back", to: 1 },
    token(1, " c"),
  ];
  for (const line of lines) take(run, line);
  assert.equal(textOf(run), " a c");
  take(run, { kind: "end", finish_reason: "length", text: " a c" });
  assert.deepEqual([run.seed, run.status, run.finish], ["9", "done", "length"]);
});

test("a text that ended is not asked for again; one that failed is", async () => {
  let asked = 0;
  const engine = {
    async *ask() {
      asked++;
      yield { kind: "begin", seed: "1", prompt: [] };
      if (asked === 1) throw new Failure("lost", "gone");
      yield { kind: "end", finish_reason: "length", text: "" };
    },
  };
  const runs = new Runs(engine, () => {});
  const failed = runs.write({ prompt: "a" });
  await turn();
  assert.deepEqual([failed.status, failed.failure.message], ["failed", "gone"]);
  const done = runs.write({ prompt: "a" });
  assert.equal(runs.write({ prompt: "a" }), done);
  await turn();
  assert.equal(runs.write({ prompt: "a" }), done);
  assert.deepEqual([done.status, asked], ["done", 2]);
});

test("a text that ends without an end was cut off; one that is stopped has not failed", async () => {
  const cut = { async *ask() {} };
  const run = new Runs(cut, () => {}).write({});
  await turn();
  assert.deepEqual([run.status, run.failure.kind], ["failed", "cut"]);

  const endless = {
    async *ask(_question, _body, signal) {
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      signal.throwIfAborted();
    },
  };
  const runs = new Runs(endless, () => {});
  const stopped = runs.write({});
  runs.stopOthers([]);
  await turn();
  assert.deepEqual([stopped.status, stopped.failure], ["stopped", null]);
});

test("at most one look is under way, and the latest of those that wait wins", async () => {
  const asked = [];
  let answer = () => {};
  const engine = {
    async *ask(_question, body) {
      asked.push(body.position);
      await new Promise((resolve) => (answer = resolve));
      yield { position: body.position };
    },
  };
  const looks = new Looks(engine);
  const seen = [];
  for (const position of [1, 2, 3, 4]) looks.ask({ position }, (look) => seen.push(look.position));
  assert.deepEqual(asked, [1]);
  answer();
  await turn();
  assert.deepEqual([asked, seen], [[1, 4], [1]]);
  answer();
  await turn();
  looks.ask({ position: 4 }, (look) => seen.push(look.position));
  assert.deepEqual(
    [asked, seen],
    [
      [1, 4],
      [1, 4, 4],
    ],
  );
});

test("a worker goes on with all answers in turn, and drops one that is stopped", async () => {
  const left = new Map();
  const dropped = [];
  const laboratory = {
    begin(question, body) {
      left.set(
        left.size,
        Array.from({ length: JSON.parse(body).lines }, (_, i) => `{"of":"${question}","line":${i}}\n`),
      );
      return left.size - 1;
    },
    step: (answer) => left.get(answer).shift(),
    drop: (answer) => dropped.push(answer),
  };
  const posted = [];
  const serving = new Serving(laboratory, (message) => posted.push(message));
  serving.take({ ask: 4, question: "write", body: { lines: 3 } });
  serving.take({ ask: 5, question: "look", body: { lines: 1 } });
  serving.take({ ask: 6, question: "write", body: { lines: 100 } });
  serving.take({ ask: 6, stop: true });
  while (posted.filter(({ done }) => done).length < 2) await turn();
  const told = posted.map(({ ask, line, done }) => (done ? `${ask} done` : `${ask} ${line.of} ${line.line}`));
  assert.deepEqual(told, ["4 write 0", "4 write 1", "5 look 0", "4 write 2", "5 done", "4 done"]);
  assert.deepEqual(dropped, [2, 1, 0]);
});
