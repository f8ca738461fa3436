import "./engine.js";
import { OnedrawError, called, natural } from "./error.js";
import { written } from "./params.js";
import { StopMatcher as Raw } from "./wasm/sampler.js";

/**
 * What a token changed in a text.
 *
 * @typedef {object} Progress
 * @property {Uint8Array} text the bytes to show now, after those shown before; a `TextDecoder` with `stream` makes text
 *   of them
 * @property {"eos" | "stop" | "length" | null} finish_reason why the text has ended; `null` while it goes on
 * @property {number | null} stop_token the token that ended the text, if one did
 * @property {number | null} stop_string which of the `stop` strings ended the text, if one did
 * @property {Rewind | null} rewind set if a banned string was completed: the sampler must go back, by `takeBack`
 *
 * @typedef {object} Rewind
 * @property {number} length the tokens of the output that stay
 * @property {number} token the token after them, which is banned at that position
 * @property {number} phrase which of `banned_strings` was found
 */

/**
 * Finds where a text ends, token by token: at EOS, stop ids, stop strings across tokens, and lengths. It also finds banned
 * strings.
 *
 * ```js
 * const matcher = new StopMatcher({ stop: "END", max_tokens: 100 });
 * matcher.push(1, "the E").text; // the bytes of "the "
 * matcher.push(2, "ND of").finish_reason; // "stop"
 * ```
 */
export class StopMatcher {
  /** @type {Raw} */
  #raw;

  /** @param {import("./params.js").SamplingParams} [params] */
  constructor(params = {}) {
    const { text, seed } = written(params);
    this.#raw = called(() => new Raw(text, seed));
  }

  /**
   * Takes a token and what it stands for.
   *
   * @param {number} token
   * @param {string | Uint8Array} text
   * @returns {Progress}
   */
  push(token, text) {
    const bytes = typeof text === "string" ? new TextEncoder().encode(text) : text;
    if (!(bytes instanceof Uint8Array)) {
      throw new OnedrawError({ kind: "param", field: "text", message: "text: must be a string or a Uint8Array" });
    }
    const progress = JSON.parse(this.#raw.push(natural("token", token), bytes));
    return { text: this.#raw.shown(), ...progress };
  }

  /**
   * Ends the text from outside. Returns the bytes that were held back.
   *
   * @returns {Uint8Array}
   */
  finish() {
    return this.#raw.finish();
  }

  /** The bytes that are held back because they may become a stop string, or be taken back. */
  get heldBack() {
    return this.#raw.held_back();
  }

  /** Gives the memory back now and not when the object is collected. */
  free() {
    this.#raw.free();
  }
}
