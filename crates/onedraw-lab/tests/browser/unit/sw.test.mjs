// The worker that keeps the site: its rules, with caches and a network that are made here.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { runInNewContext } from "node:vm";

const code = await readFile(new URL("../../../page/sw.js", import.meta.url), "utf8");
const ORIGIN = "https://example.org";

/** The caches of an origin. */
class Caches {
  /** @type {Map<string, Map<string, Response>>} */
  named = new Map();

  async open(name) {
    const files = this.named.get(name) ?? new Map();
    this.named.set(name, files);
    return {
      put: async (file, response) => void files.set(file, response),
      match: async (request) => files.get(request.url),
    };
  }

  async keys() {
    return [...this.named.keys()];
  }

  async delete(name) {
    return this.named.delete(name);
  }

  async match() {
    return undefined;
  }
}

/**
 * A worker, as the browser starts it.
 * @param {Caches} caches
 * @param {string} scope
 * @param {string} version
 * @param {(path: string) => Response} respond answers for the site
 */
function start(caches, scope, version, respond) {
  const listeners = {};
  const worker = { isRegistered: true };
  const within = (file) => new URL(file, scope).href;
  const self = {
    location: { href: `${scope}sw.js?version=${version}` },
    registration: { scope, unregister: async () => (worker.isRegistered = false) },
    clients: { claim: async () => {} },
    addEventListener: (event, listener) => (listeners[event] = listener),
  };
  class Asked extends Request {
    constructor(file, options) {
      super(within(file), options);
    }
  }
  const fetch = async (asked) => respond(typeof asked === "string" ? within(asked) : asked.url);
  runInNewContext(code, { self, caches, fetch, Request: Asked, Response, URL, Error });
  /** Sends an event, and waits for all that it starts. */
  worker.send = async (event, rest = {}) => {
    const started = [];
    let response;
    listeners[event]({
      ...rest,
      waitUntil: (work) => started.push(work),
      respondWith: (answer) => (response = answer),
    });
    await Promise.all(started);
    return response;
  };
  worker.visit = () => worker.send("fetch", { request: { url: scope, method: "GET", mode: "navigate" } });
  return worker;
}

/** A site of this version, whose first page names that one. */
const siteOf = (version, named) => (path) => {
  if (path.endsWith("site.json")) return new Response(JSON.stringify({ files: [`${version}/main.js`] }));
  if (path.endsWith("main.js")) return new Response(`// ${version}`);
  return new Response(`<script src="${named}/main.js"></script>`);
};

test("two sites of one origin leave each other's files alone", async () => {
  const caches = new Caches();
  const install = async (scope, version) => {
    const worker = start(caches, `${ORIGIN}${scope}`, version, siteOf(version, version));
    await worker.send("install");
    await worker.send("activate");
  };
  await install("/a/", "one");
  await install("/", "one");
  await install("/a/b/", "one");
  await install("/a/", "two");
  const kept = [`onedraw ${ORIGIN}/ one`, `onedraw ${ORIGIN}/a/ two`, `onedraw ${ORIGIN}/a/b/ one`];
  assert.deepEqual((await caches.keys()).sort(), kept);
  assert.deepEqual([...caches.named.get(kept[1]).keys()], ["./", "index.html", "two/main.js"]);
});

test("a first page of another version is not kept with the files of this one", async () => {
  const caches = new Caches();
  const worker = start(caches, `${ORIGIN}/`, "one", siteOf("one", "two"));
  await assert.rejects(worker.send("install"), { message: "./ is not of version one" });
  assert.deepEqual(await caches.keys(), []);
});

test("the worker goes with the site, and stays where the server is broken or away", async () => {
  const page = () => new Response("the page");
  const away = () => {
    throw new TypeError("fetch failed");
  };
  for (const [answer, stays] of [
    [() => new Response("", { status: 404 }), false],
    [() => new Response("", { status: 410 }), false],
    [() => new Response("", { status: 503 }), true],
    [() => new Response("", { status: 429 }), true],
    [() => new Response("{}"), true],
    [away, true],
  ]) {
    const caches = new Caches();
    for (const name of ["onedraw https://example.org/ one", "onedraw https://example.org/b/ one"])
      await caches.open(name);
    const worker = start(caches, `${ORIGIN}/`, "one", (path) => (path.endsWith("site.json") ? answer() : page()));
    const response = await worker.visit();
    assert.equal(await response.text(), "the page");
    assert.equal(worker.isRegistered, stays, String(answer));
    assert.deepEqual((await caches.keys()).length, stays ? 2 : 1);
    assert.ok(caches.named.has("onedraw https://example.org/b/ one"));
  }
});

test("where the browser refuses its storage, files come from the network", async () => {
  const caches = new Caches();
  caches.open = async () => {
    throw new DOMException("refused", "QuotaExceededError");
  };
  const worker = start(caches, `${ORIGIN}/`, "one", siteOf("one", "one"));
  const request = { url: `${ORIGIN}/one/main.js`, method: "GET", mode: "no-cors" };
  assert.equal(await (await worker.send("fetch", { request })).text(), "// one");
});
