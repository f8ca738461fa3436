// A worker's side of the conversation: questions are answered pass by pass, one after the other in turn, so that a look
// does not wait for a long text, and a stop is heard between two passes.

import { Failure } from "./contract.js";

/**
 * The laboratory in WebAssembly.
 * @typedef {object} Laboratory
 * @property {(question: string, body: string) => number} begin begins an answer and gives its number
 * @property {(answer: number) => string | undefined} step goes on with an answer: the lines that follow, each with its
 *   line feed; undefined once it has ended
 * @property {(answer: number) => void} drop forgets an answer
 * @property {(weights: Uint8Array) => void} add_drafter has the drafter whose weights these are
 */

/**
 * Fetches the drafter of a question, where it is one that has to be fetched.
 * @typedef {(name: string, progress: (loaded: number, total: number) => void) => Promise<Uint8Array | null>} Fetcher
 */

export class Serving {
  #laboratory;
  #post;
  #fetchDrafter;
  /** The drafters that are there or on their way. @type {Map<string, Promise<void>>} */
  #drafters = new Map();
  /** The answers under way, by the number of the question; for one that waits, the name of its drafter. @type {Map<number, number | string>} */
  #answers = new Map();
  #isWorking = false;

  /**
   * @param {Laboratory} laboratory
   * @param {(message: object) => void} post
   * @param {Fetcher} fetchDrafter
   */
  constructor(laboratory, post, fetchDrafter) {
    this.#laboratory = laboratory;
    this.#post = post;
    this.#fetchDrafter = fetchDrafter;
  }

  /** @param {any} message of the page: a question, or that it has heard enough */
  take(message) {
    const { ask, question, body, stop } = message;
    if (stop) {
      const answer = this.#answers.get(ask);
      this.#answers.delete(ask);
      if (typeof answer === "number") this.#guarded(() => this.#laboratory.drop(answer));
      return;
    }
    // No draw depends on guesses, so only a text that is written waits for its drafter.
    if (question === "write" && typeof body.draft === "string") this.#beginWithDrafter(ask, body);
    else this.#begin(ask, question, body);
  }

  /**
   * @param {number} ask
   * @param {string} question
   * @param {object} body
   */
  #begin(ask, question, body) {
    this.#guarded(() => {
      this.#answers.set(ask, this.#laboratory.begin(question, JSON.stringify(body)));
      if (!this.#isWorking) this.#work();
    });
  }

  /**
   * @param {number} ask
   * @param {{ draft: string }} body
   */
  async #beginWithDrafter(ask, body) {
    const drafter = body.draft;
    this.#answers.set(ask, drafter);
    try {
      await this.#drafter(drafter);
    } catch (error) {
      // It was stopped, or the whole worker is at its end.
      if (!this.#answers.has(ask)) return;
      const { kind, message } = error instanceof Failure ? error : new Failure("worker", String(error));
      const told = `The drafter ${drafter} could not be loaded. ${message}`;
      this.#post({ ask, line: { kind: "error", error: { kind, message: told, field: "draft" } } });
      this.#answers.delete(ask);
      return;
    }
    if (this.#answers.has(ask)) this.#begin(ask, "write", body);
  }

  /**
   * Has a drafter. It is fetched once; where that fails, the next question tries again.
   * @param {string} name
   */
  #drafter(name) {
    const known = this.#drafters.get(name);
    if (known !== undefined) return known;
    const progress = (/** @type {number} */ loaded, /** @type {number} */ total) => {
      const line = { kind: "loading", drafter: name, loaded, total };
      for (const [ask, waits] of this.#answers) if (waits === name) this.#post({ ask, line });
    };
    const loading = this.#fetchDrafter(name, progress).then((weights) => {
      if (weights !== null) this.#add(weights);
    });
    this.#drafters.set(name, loading);
    loading.catch(() => this.#drafters.delete(name));
    return loading;
  }

  /** @param {Uint8Array} weights */
  #add(weights) {
    try {
      this.#laboratory.add_drafter(weights);
    } catch (error) {
      // Weights that are refused are an `Error`; a trap is an error of another name.
      if (!(error instanceof Error) || error.name !== "Error") this.#crashed(error);
      throw error;
    }
  }

  async #work() {
    this.#isWorking = true;
    while ([...this.#answers.values()].some((answer) => typeof answer === "number")) {
      for (const [ask, answer] of [...this.#answers]) {
        if (typeof answer === "number" && this.#answers.get(ask) === answer)
          this.#guarded(() => this.#step(ask, answer));
        await nextTurn();
      }
    }
    this.#isWorking = false;
  }

  /**
   * @param {number} ask
   * @param {number} answer
   */
  #step(ask, answer) {
    const lines = this.#laboratory.step(answer);
    if (lines === undefined) {
      this.#answers.delete(ask);
      this.#laboratory.drop(answer);
      this.#post({ ask, done: true });
      return;
    }
    for (const line of lines.split("\n")) if (line !== "") this.#post({ ask, line: JSON.parse(line) });
  }

  /** @param {() => void} work of which only a trap is an error */
  #guarded(work) {
    try {
      work();
    } catch (error) {
      this.#crashed(error);
    }
  }

  /**
   * WebAssembly that trapped is in no state to go on: the page has to take another worker.
   * @param {unknown} error
   */
  #crashed(error) {
    this.#answers.clear();
    this.#post({ crashed: String(error) });
  }
}

/** Lets messages in. A timer would be slowed down in a tab in the background, a message is not. */
function nextTurn() {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve(undefined);
    };
    port2.postMessage(null);
  });
}
