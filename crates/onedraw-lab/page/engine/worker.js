// The engine in the browser, seen from the page: a worker that has the model, and messages to and fro. A worker that
// crashed is replaced by a fresh one with the next question.

import { Failure, failureOf } from "./contract.js";

/** @typedef {import("./contract.js").Engine} Engine */
/** @typedef {{ line: object } | { done: true }} Reply */
/** @typedef {Pick<Worker, "postMessage" | "onmessage" | "onerror" | "terminate">} Port */

const CRASHED =
  "The model in this browser stopped, perhaps for want of memory. Try again: it is started anew, and what is written here stays.";

const UNSTARTED = "The model could not be started in this browser. Reload the page to try again.";

/**
 * Starts the worker and waits until its model is loaded.
 * @param {(loaded: number, total: number | null) => void} progress in bytes
 * @returns {Promise<WorkerEngine>}
 */
export async function startWorker(progress) {
  const engine = new WorkerEngine(() => new Worker(new URL("./wasm.js", import.meta.url), { type: "module" }));
  await engine.open(progress);
  return engine;
}

/** @implements {Engine} */
export class WorkerEngine {
  #make;
  /** The worker, once its model is loaded; null where there is none. @type {Promise<Port> | null} */
  #worker = null;
  #next = 0;
  /** @type {Map<number, (reply: Reply) => void>} */
  #open = new Map();

  /** @param {() => Port} make starts a worker */
  constructor(make) {
    this.#make = make;
  }

  /**
   * Starts a worker where there is none.
   * @param {(loaded: number, total: number | null) => void} [progress]
   * @returns {Promise<Port>}
   */
  open(progress = () => {}) {
    this.#worker ??= this.#started(progress).catch((error) => {
      this.#worker = null;
      throw error;
    });
    return this.#worker;
  }

  /**
   * @param {(loaded: number, total: number | null) => void} progress
   * @returns {Promise<Port>}
   */
  #started(progress) {
    const worker = this.#make();
    return new Promise((resolve, reject) => {
      const fail = (/** @type {Failure} */ failure) => {
        worker.terminate();
        reject(failure);
      };
      worker.onerror = () => fail(new Failure("worker", UNSTARTED));
      worker.onmessage = ({ data }) => {
        if (data.progress) progress(data.progress.loaded, data.progress.total);
        if (data.failed) fail(new Failure(data.failed.kind, data.failed.message));
        if (data.ready) {
          worker.onmessage = ({ data }) => (data.crashed ? this.#crashed(worker) : this.#open.get(data.ask)?.(data));
          worker.onerror = () => this.#crashed(worker);
          resolve(worker);
        }
      };
    });
  }

  /** @param {Port} worker */
  #crashed(worker) {
    worker.terminate();
    this.#worker = null;
    const line = { kind: "error", error: { kind: "worker", message: CRASHED, field: null } };
    for (const take of [...this.#open.values()]) take({ line });
  }

  /**
   * @param {string} question
   * @param {object} body
   * @param {AbortSignal} [signal]
   * @returns {AsyncGenerator<object, void, void>}
   */
  async *ask(question, body, signal) {
    signal?.throwIfAborted();
    const worker = await this.open();
    signal?.throwIfAborted();
    const ask = this.#next++;
    /** @type {Reply[]} */
    const replies = [];
    let wake = () => {};
    this.#open.set(ask, (reply) => {
      replies.push(reply);
      wake();
    });
    const awaken = () => wake();
    signal?.addEventListener("abort", awaken);
    worker.postMessage({ ask, question, body });
    try {
      for (;;) {
        signal?.throwIfAborted();
        const reply = replies.shift();
        if (reply === undefined) {
          await new Promise((resolve) => (wake = () => resolve(undefined)));
        } else if ("done" in reply) {
          return;
        } else {
          const failure = failureOf(reply.line);
          if (failure !== null) throw failure;
          yield reply.line;
        }
      }
    } finally {
      signal?.removeEventListener("abort", awaken);
      this.#open.delete(ask);
      worker.postMessage({ ask, stop: true });
    }
  }
}
