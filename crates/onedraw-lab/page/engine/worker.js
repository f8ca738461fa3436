// The engine in the browser, seen from the page: a worker that has the model, and messages to and fro.

import { Failure, failureOf } from "./contract.js";

/** @typedef {import("./contract.js").Engine} Engine */
/** @typedef {{ line: object } | { done: true }} Reply */

/**
 * Starts the worker and waits until its model is loaded.
 * @param {(loaded: number, total: number | null) => void} progress in bytes
 * @returns {Promise<WorkerEngine>}
 */
export function startWorker(progress) {
  const worker = new Worker(new URL("./wasm.js", import.meta.url), { type: "module" });
  return new Promise((resolve, reject) => {
    worker.onerror = () => reject(new Failure("worker", "The model could not be started in this browser."));
    worker.onmessage = ({ data }) => {
      if (data.progress) progress(data.progress.loaded, data.progress.total);
      if (data.failed) reject(new Failure(data.failed.kind, data.failed.message));
      if (data.ready) resolve(new WorkerEngine(worker));
    };
  });
}

/** @implements {Engine} */
export class WorkerEngine {
  #worker;
  #next = 0;
  /** @type {Map<number, (reply: Reply) => void>} */
  #open = new Map();

  /** @param {Pick<Worker, "postMessage" | "onmessage" | "onerror">} worker one whose model is loaded */
  constructor(worker) {
    this.#worker = worker;
    worker.onmessage = ({ data }) => this.#open.get(data.ask)?.(data);
    worker.onerror = () => {
      const message = "The model in this browser stopped, perhaps for want of memory. Reload the page to go on.";
      const line = { kind: "error", error: { kind: "worker", message, field: null } };
      for (const take of this.#open.values()) take({ line });
    };
  }

  /**
   * @param {string} question
   * @param {object} body
   * @param {AbortSignal} [signal]
   * @returns {AsyncGenerator<object, void, void>}
   */
  async *ask(question, body, signal) {
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
    this.#worker.postMessage({ ask, question, body });
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
      this.#worker.postMessage({ ask, stop: true });
    }
  }
}
