/**
 * The story model: 5.8 million parameters that write short children's stories, in a worker, with onedraw's draws. Seed 7
 * writes the story that onedraw's program writes.
 *
 * ```js
 * import { loadStories } from "onedraw/stories";
 *
 * const stories = await loadStories();
 * for await (const { text } of stories.stream("Once upon a time", { seed: 7 })) show(text);
 * stories.close();
 * ```
 *
 * @module
 */

import { OnedrawError } from "./error.js";
import { written } from "./params.js";
import { started } from "./thread.js";

export { OnedrawError } from "./error.js";

/**
 * One token of one text.
 *
 * @typedef {object} StoryEvent
 * @property {number} sample which of the `n` texts
 * @property {import("./sampler.js").Sampled | null} sampled the token; `null` if none could be drawn
 * @property {string} text the text to show now, after what was shown before
 * @property {number} taken_back how many of the last tokens were taken back because of a banned string
 * @property {"eos" | "stop" | "length" | null} finish_reason set if the text ended
 * @property {{ kind: string, field: string | null, message: string } | null} error why no token could be drawn
 *
 * A text that has ended.
 *
 * @typedef {object} Story
 * @property {string} text the text, without the prompt
 * @property {import("./sampler.js").Sampled[]} tokens its tokens
 * @property {StoryEvent["finish_reason"]} finish_reason why it ended
 * @property {StoryEvent["error"]} error why no token could be drawn
 *
 * @typedef {import("./params.js").SamplingParams} SamplingParams
 */

/**
 * Starts the worker and loads the model in it.
 *
 * @param {object} [options]
 * @param {string | URL | Uint8Array} [options.weights] the model's file, or where it is; without it, the package's own
 * @param {(progress: { loaded: number, total: number | null }) => void} [options.progress] is told how many bytes of the
 *   file have come, and how many there are, where that is known
 * @param {AbortSignal} [options.signal] stops loading
 * @returns {Promise<Stories>}
 */
export async function loadStories({ weights, progress, signal } = {}) {
  signal?.throwIfAborted();
  const stories = new Stories();
  const close = () => stories.close(signal?.reason);
  signal?.addEventListener("abort", close, { once: true });
  try {
    await stories.open(weights ?? new URL("./stories.safetensors", import.meta.url), progress);
  } catch (error) {
    stories.close();
    throw error;
  } finally {
    signal?.removeEventListener("abort", close);
  }
  return stories;
}

/** The story model in its worker. `loadStories` makes one. */
export class Stories {
  /** @type {import("./thread.js").Port} */
  #worker;
  #next = 0;
  /** @type {unknown} */
  #ended = null;
  /**
   * Who waits for an answer, by the number of the request.
   *
   * @type {Map<number, (message: any) => void>}
   */
  #waiting = new Map();

  constructor() {
    this.#worker = started(
      new URL("./stories-worker.js", import.meta.url),
      (message) => this.#waiting.get(message.id)?.(message),
      (cause) => this.close(new OnedrawError({ kind: "worker", message: `the worker of the model ended: ${cause}` })),
    );
  }

  /**
   * Loads the model; `loadStories` calls this.
   *
   * @param {string | URL | Uint8Array} weights
   * @param {(progress: { loaded: number, total: number | null }) => void} [progress]
   * @returns {Promise<void>}
   */
  async open(weights, progress) {
    if (weights instanceof Uint8Array) {
      // A copy, so that the caller's stays: a transfer would take it away.
      const copy = weights.slice();
      return this.#ask({ ask: "open", weights: copy }, { transfer: [copy.buffer] });
    }
    const base = globalThis.document?.baseURI ?? globalThis.location?.href;
    return this.#ask({ ask: "open", weights: new URL(weights, base).href }, { progress });
  }

  /**
   * Writes the texts that follow a prompt, token by token. Leaving the loop ends them.
   *
   * @param {string} prompt
   * @param {SamplingParams} [params] what is not given is the model's own
   * @param {{ signal?: AbortSignal }} [options]
   * @returns {AsyncGenerator<StoryEvent, void, undefined>}
   */
  async *stream(prompt, params = {}, { signal } = {}) {
    signal?.throwIfAborted();
    const id = this.#next++;
    /** @type {any[]} */
    const messages = [];
    let wake = () => {};
    const heard = (/** @type {any} */ message) => {
      messages.push(message);
      wake();
    };
    const abort = () => heard({ thrown: signal?.reason });
    this.#waiting.set(id, heard);
    signal?.addEventListener("abort", abort, { once: true });
    try {
      this.#post({ id, ask: "write", prompt: String(prompt), ...written(params) });
      for (;;) {
        while (messages.length === 0) await new Promise((resolve) => (wake = () => resolve(undefined)));
        const { thrown, error, events, isDone } = messages.shift();
        if (thrown !== undefined) throw thrown;
        if (error) throw new OnedrawError(error);
        yield* events;
        if (isDone) return;
      }
    } finally {
      signal?.removeEventListener("abort", abort);
      this.#waiting.delete(id);
      if (this.#ended === null) this.#worker.post({ id, ask: "cancel" });
    }
  }

  /**
   * Writes the texts that follow a prompt to their end, one for each of `n`.
   *
   * @param {string} prompt
   * @param {SamplingParams} [params] what is not given is the model's own
   * @param {{ signal?: AbortSignal }} [options]
   * @returns {Promise<Story[]>}
   */
  async write(prompt, params, options) {
    /** @type {Story[]} */
    const texts = [];
    for await (const event of this.stream(prompt, params, options)) {
      const story = (texts[event.sample] ??= { text: "", tokens: [], finish_reason: null, error: null });
      story.text += event.text;
      if (event.sampled) story.tokens.push(event.sampled);
      story.tokens.length -= Math.min(event.taken_back, story.tokens.length);
      story.finish_reason = event.finish_reason;
      story.error = event.error;
    }
    return texts;
  }

  /**
   * The tokens of a text.
   *
   * @param {string} text
   * @returns {Promise<Uint32Array>}
   */
  encode(text) {
    return this.#ask({ ask: "encode", text: String(text) });
  }

  /**
   * The text of tokens.
   *
   * @param {Uint32Array} tokens
   * @returns {Promise<string>}
   */
  decode(tokens) {
    return this.#ask({ ask: "decode", tokens: Uint32Array.from(tokens) });
  }

  /**
   * Ends the worker and gives its memory back. What is still being written fails.
   *
   * @param {unknown} [reason]
   */
  close(reason = new OnedrawError({ kind: "closed", message: "the story model was closed" })) {
    if (this.#ended !== null) return;
    this.#ended = reason;
    this.#worker.end();
    for (const heard of [...this.#waiting.values()]) heard({ thrown: reason });
  }

  /**
   * @param {object} message
   * @param {ArrayBuffer[]} [transfer]
   */
  #post(message, transfer) {
    if (this.#ended !== null) throw this.#ended;
    this.#worker.post(message, transfer);
  }

  /**
   * Asks for one answer.
   *
   * @param {object} message
   * @param {{ transfer?: ArrayBuffer[], progress?: (progress: any) => void }} [options]
   * @returns {Promise<any>}
   */
  async #ask(message, { transfer, progress } = {}) {
    const id = this.#next++;
    try {
      return await new Promise((resolve, reject) => {
        this.#waiting.set(id, ({ thrown, error, progress: come, answer }) => {
          if (come) progress?.(come);
          else if (thrown !== undefined) reject(thrown);
          else if (error) reject(new OnedrawError(error));
          else resolve(answer);
        });
        this.#post({ id, ...message }, transfer);
      });
    } finally {
      this.#waiting.delete(id);
    }
  }
}
