// Questions and answers: the lines of a server, the messages of a worker, texts and looks.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Failure, askOnce } from "../../../page/engine/contract.js";
import { linesOf } from "../../../page/engine/lines.js";
import { ServerEngine } from "../../../page/engine/server.js";
import { Serving } from "../../../page/engine/serving.js";
import { WorkerEngine } from "../../../page/engine/worker.js";
import { Lab } from "../../../page/lab.js";
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

/** An engine whose workers are made here, and are ready at once. */
async function workers() {
  const made = [];
  const engine = new WorkerEngine(() => {
    const worker = { sent: [], isEnded: false, postMessage: (message) => worker.sent.push(message) };
    worker.terminate = () => (worker.isEnded = true);
    made.push(worker);
    queueMicrotask(() => worker.onmessage({ data: { ready: true } }));
    return worker;
  });
  await engine.open();
  return { engine, made };
}

test("a worker's messages are the lines of an answer, and who stops listening says so", async () => {
  const { engine, made } = await workers();
  const [worker] = made;
  const { sent } = worker;
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
});

test("a worker that crashed is told to all who wait, and the next question has a fresh one", async () => {
  for (const crash of [
    (worker) => worker.onerror(),
    (worker) => worker.onmessage({ data: { crashed: "RuntimeError: unreachable" } }),
  ]) {
    const { engine, made } = await workers();
    const waiting = [all(engine.ask("write", {})), all(engine.ask("look", {}))];
    await turn();
    crash(made[0]);
    for (const answer of waiting) await assert.rejects(answer, { kind: "worker", message: /Try again/ });
    assert.ok(made[0].isEnded);
    const next = all(engine.ask("write", {}));
    await turn();
    assert.equal(made.length, 2);
    const { ask } = made[1].sent.at(-1);
    made[1].onmessage({ data: { ask, line: { a: 1 } } });
    made[1].onmessage({ data: { ask, done: true } });
    assert.deepEqual(await next, [{ a: 1 }]);
  }
});

test("a worker that does not start is told, and the next question tries again", async () => {
  const made = [];
  const engine = new WorkerEngine(() => {
    const worker = { postMessage() {}, terminate: () => (worker.isEnded = true) };
    made.push(worker);
    const failed = { kind: "missing", message: "The file model did not arrive. Try again." };
    queueMicrotask(() => worker.onmessage({ data: { failed } }));
    return worker;
  });
  for (const count of [1, 2]) {
    await assert.rejects(askOnce(engine, "about", {}), { kind: "missing", message: /did not arrive/ });
    assert.deepEqual([made.length, made.at(-1).isEnded], [count, true]);
  }
});

test("WebAssembly that traps is told once, and no answer goes on", async () => {
  const laboratory = {
    begin: (question) => (question === "about" ? 1 : 2),
    step(answer) {
      if (answer === 2) throw new WebAssembly.RuntimeError("unreachable");
      return '{"a":1}\n';
    },
    drop() {},
  };
  const posted = [];
  const serving = new Serving(
    laboratory,
    (message) => posted.push(message),
    async () => null,
  );
  serving.take({ ask: 1, question: "about", body: {} });
  serving.take({ ask: 2, question: "look", body: {} });
  while (!posted.some(({ crashed }) => crashed)) await turn();
  const told = posted.length;
  for (let each = 0; each < 5; each++) await turn();
  assert.equal(posted.length, told);
  assert.deepEqual(posted.at(-1), { crashed: "RuntimeError: unreachable" });
});

test("a drafter is fetched with the first text that wants it, once, and a look does not wait for it", async () => {
  const begun = [];
  const had = [];
  const laboratory = {
    begin: (question, body) => begun.push(`${question} ${JSON.parse(body).draft}`),
    step: () => undefined,
    drop() {},
    add_drafter: (weights) => had.push(weights.length),
  };
  const posted = [];
  let arrive = () => {};
  let fetched = 0;
  const fetching = (name, progress) => {
    if (name !== "draft") return Promise.resolve(null);
    fetched++;
    progress(1, 2);
    return new Promise((resolve, reject) => (arrive = { resolve, reject }));
  };
  const serving = new Serving(laboratory, (message) => posted.push(message), fetching);
  const write = (ask, draft) => serving.take({ ask, question: "write", body: { draft } });
  write(1, "draft");
  serving.take({ ask: 2, question: "look", body: { draft: "draft" } });
  write(3, "ngram");
  await turn();
  assert.deepEqual(begun, ["look draft", "write ngram"]);
  const loading = { kind: "loading", drafter: "draft", loaded: 1, total: 2 };
  assert.deepEqual(posted[0], { ask: 1, line: loading });
  // One that fails is a sentence, and the next text tries again.
  arrive.reject(new Failure("missing", "The file did not arrive. Try again."));
  await turn();
  const told = posted.find(({ line }) => line?.kind === "error");
  assert.deepEqual([told.ask, told.line.error.field], [1, "draft"]);
  assert.match(told.line.error.message, /^The drafter draft could not be loaded. The file did not arrive/);
  write(4, "draft");
  write(5, "draft");
  await turn();
  serving.take({ ask: 5, stop: true });
  arrive.resolve(new Uint8Array(7));
  await turn();
  write(6, "draft");
  await turn();
  assert.deepEqual([fetched, had], [2, [7]]);
  assert.deepEqual(begun.slice(2), ["write draft", "write draft"]);
});

test("all who wait for a drafter hear how far it is, and one that stopped waiting does not", async () => {
  const laboratory = { begin: () => 1, step: () => undefined, drop() {}, add_drafter() {} };
  const posted = [];
  let fetching = {};
  const serving = new Serving(
    laboratory,
    (message) => posted.push(message),
    (_name, progress) => new Promise((resolve) => (fetching = { progress, resolve })),
  );
  for (const ask of [1, 2, 3]) serving.take({ ask, question: "write", body: { draft: "draft" } });
  serving.take({ ask: 2, stop: true });
  fetching.progress(1, 4);
  assert.deepEqual(
    posted.map(({ ask, line }) => [ask, line.loaded, line.total]),
    [
      [1, 1, 4],
      [3, 1, 4],
    ],
  );
});

test("weights that are refused are told to the text; a trap over them ends the worker", async () => {
  for (const [thrown, told] of [
    [
      new Error("wrong weights"),
      [
        [1, "draft"],
        [2, "draft"],
      ],
    ],
    [new WebAssembly.RuntimeError("unreachable"), ["RuntimeError: unreachable"]],
    [new RangeError("Maximum call stack size exceeded"), ["RangeError: Maximum call stack size exceeded"]],
  ]) {
    const begun = [];
    const laboratory = {
      begin: (question) => begun.push(question),
      step: () => undefined,
      drop() {},
      add_drafter() {
        throw thrown;
      },
    };
    const posted = [];
    const serving = new Serving(
      laboratory,
      (message) => posted.push(message),
      async () => new Uint8Array(1),
    );
    for (const ask of [1, 2]) serving.take({ ask, question: "write", body: { draft: "draft" } });
    await turn();
    assert.deepEqual(
      posted.map(({ ask, line, crashed }) => crashed ?? [ask, line.error.field]),
      told,
    );
    assert.deepEqual(begun, []);
  }
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

test("a text that was stopped is begun anew, though its end was not told yet", async () => {
  const asked = [];
  const engine = {
    async *ask(_question, body, signal) {
      asked.push(body.prompt);
      yield { kind: "begin", seed: "7", prompt: [] };
      await turn();
      signal.throwIfAborted();
      yield { kind: "end", finish_reason: "length", text: "" };
    },
  };
  const runs = new Runs(engine, () => {});
  const [first, other] = [runs.write({ prompt: "a" }), runs.write({ prompt: "b" })];
  assert.equal(runs.write({ prompt: "a" }), first);
  runs.stopOthers([other]);
  const again = runs.write({ prompt: "a" });
  while (again.status === "writing") await turn();
  assert.deepEqual([first.status, again.status, asked], ["stopped", "done", ["a", "b", "a"]]);
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

test("an answer that comes after the reader went back to an earlier question is kept, and not shown", async () => {
  const waiting = [];
  const asked = [];
  const engine = {
    async *ask(_question, body) {
      asked.push(body.name);
      await new Promise((resolve) => waiting.push(resolve));
      yield { name: body.name };
    },
  };
  const looks = new Looks(engine);
  const seen = [];
  const ask = (name) => looks.ask({ name }, (look) => seen.push(look.name));
  ask("A");
  waiting[0]();
  await turn();
  ask("B");
  ask("A");
  waiting[1]();
  await turn();
  assert.deepEqual(
    [asked, seen],
    [
      ["A", "B"],
      ["A", "A"],
    ],
  );
  ask("B");
  assert.deepEqual(
    [asked, seen],
    [
      ["A", "B"],
      ["A", "A", "B"],
    ],
  );
});

test("what is said of a look is said of its side and its text alone", async () => {
  const waiting = [];
  const engine = {
    async *ask(question, body) {
      if (question === "look") {
        const { top_k } = body.params;
        await new Promise((resolve) => waiting.push(resolve));
        if (top_k === 9) throw new Failure("row", "nothing is left");
        yield { position: body.position, token: { id: top_k ?? 0, text: "a" }, stages: [] };
        return;
      }
      yield { kind: "begin", seed: "7", prompt: [] };
      yield { kind: "token", position: 0, id: 5, text: "a", probability: 1, forced: false };
      yield { kind: "end", finish_reason: "length", text: "a" };
    },
  };
  const answered = async () => {
    while (waiting.length === 0) await turn();
    waiting.shift()();
    await turn();
  };
  const beside = { params: { top_k: 4 }, order: null };
  const state = { prompt: "a", params: {}, order: null, forced: [], draft: null, schema: null, beside };
  const lab = new Lab(engine, { parameters: [] }, state);
  await answered();
  assert.equal(lab.currentLook.token.id, 0);
  // Until the answer is there, the bars are those of before, and nothing is said of them.
  lab.select("beside", 0);
  assert.deepEqual([lab.look.token.id, lab.currentLook], [0, null]);
  await answered();
  assert.equal(lab.currentLook.token.id, 4);
  lab.change("another", { prompt: "b" });
  assert.deepEqual([lab.look.token.id, lab.currentLook], [4, null]);
  await answered();
  assert.equal(lab.currentLook.token.id, 4);
  lab.preview({ params: { top_k: 9 }, order: null });
  assert.equal(lab.currentLook, null);
  await answered();
  assert.deepEqual([lab.look, lab.currentLook, lab.lookFailure.message], [null, null, "nothing is left"]);
});

test("a look has the seed of its text, whoever chose it", async () => {
  const seeds = [];
  let chosen = 90;
  const engine = {
    async *ask(question, body) {
      if (question === "look") {
        seeds.push(body.params.seed);
        yield { position: body.position, token: { id: 5, text: "a" }, stages: [] };
        return;
      }
      yield { kind: "begin", seed: body.params.seed ?? `${chosen++}`, prompt: [] };
      yield { kind: "token", position: 0, id: 5, text: "a", probability: 1, forced: false };
      yield { kind: "end", finish_reason: "length", text: "a" };
    },
  };
  const beside = { params: { top_k: 4 }, order: null };
  const state = { prompt: "a", params: {}, order: null, forced: [], draft: null, schema: null, beside };
  const lab = new Lab(engine, { parameters: [] }, state);
  await turn();
  lab.select("beside", 0);
  await turn();
  lab.change("a seed", { params: { seed: "7" } });
  await turn();
  assert.deepEqual(seeds, ["90", "91", "7"]);
});

test("a draw that is shown is looked at again once its token was taken back", async () => {
  let goOn = () => {};
  const looked = [];
  const token = (position, id) => ({ kind: "token", position, id, text: "a", probability: 1, forced: false });
  const engine = {
    async *ask(question, body) {
      if (question === "look") {
        looked.push(body.position);
        yield { position: body.position, token: { id: 7, text: "a" }, draw: looked.length, stages: [] };
        return;
      }
      yield { kind: "begin", seed: "7", prompt: [] };
      yield token(0, 5);
      yield token(1, 6);
      await new Promise((resolve) => (goOn = resolve));
      yield { kind: "back", to: 1 };
      yield token(1, 7);
      yield { kind: "end", finish_reason: "length", text: "aa" };
    },
  };
  const state = { prompt: "a", params: {}, order: null, forced: [], draft: null, schema: null, beside: null };
  const lab = new Lab(engine, { parameters: [] }, state);
  while (lab.run.tokens.length < 2) await turn();
  lab.select("main", 1);
  await turn();
  const seen = lab.look.draw;
  goOn();
  while (lab.run.status === "writing") await turn();
  await turn();
  assert.deepEqual([looked.filter((position) => position === 1).length, lab.look.draw], [2, seen + 1]);
  // It is kept again: to and fro asks for nothing.
  const count = looked.length;
  for (const position of [0, 1]) {
    lab.select("main", position);
    await turn();
  }
  assert.equal(looked.length, count);
});

test("a look at what is taken back later is asked for again", async () => {
  const waiting = [];
  let asked = 0;
  const engine = {
    async *ask(_question, body) {
      asked++;
      const draw = asked;
      if (body.waits) await new Promise((resolve) => waiting.push(resolve));
      yield { position: body.position, draw };
    },
  };
  const looks = new Looks(engine);
  const look = (question) => new Promise((resolve) => looks.ask(question, (found) => resolve(found.draw)));
  assert.deepEqual([await look({ position: 3 }), await look({ position: 5 })], [1, 2]);
  await turn();
  looks.forget(4);
  assert.deepEqual([await look({ position: 3 }), await look({ position: 5 })], [1, 3]);
  // One that was under way when tokens were taken back is shown, and not kept.
  const late = look({ position: 6, waits: true });
  await turn();
  looks.forget(6);
  waiting[0]();
  assert.equal(await late, 4);
  await turn();
  const again = look({ position: 6, waits: true });
  await turn();
  waiting[1]();
  assert.equal(await again, 5);
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
  const serving = new Serving(
    laboratory,
    (message) => posted.push(message),
    async () => null,
  );
  serving.take({ ask: 4, question: "write", body: { lines: 3 } });
  serving.take({ ask: 5, question: "look", body: { lines: 1 } });
  serving.take({ ask: 6, question: "write", body: { lines: 100 } });
  serving.take({ ask: 6, stop: true });
  while (posted.filter(({ done }) => done).length < 2) await turn();
  const told = posted.map(({ ask, line, done }) => (done ? `${ask} done` : `${ask} ${line.of} ${line.line}`));
  assert.deepEqual(told, ["4 write 0", "4 write 1", "5 look 0", "4 write 2", "5 done", "4 done"]);
  assert.deepEqual(dropped, [2, 1, 0]);
});
