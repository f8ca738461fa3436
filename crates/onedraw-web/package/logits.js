import { memory } from "./engine.js";
import { OnedrawError, called } from "./error.js";
import { Row } from "./wasm/sampler.js";

/**
 * A row of logits that lies where the sampler reads it, so that a draw copies nothing. A model that can write its output
 * into `values` saves the copy.
 *
 * ```js
 * const logits = new Logits(32_000);
 * logits.values.set(output);
 * sampler.sample(logits);
 * ```
 */
export class Logits {
  /** @type {Row} */
  #row;
  #length;
  /** @type {Float32Array<ArrayBuffer> | null} */
  #values = null;

  /** @param {number} length how many logits, up to 2^20 */
  constructor(length) {
    if (!Number.isInteger(length) || length < 0) {
      throw new OnedrawError({ kind: "param", field: "length", message: `length: ${length} is no number of logits` });
    }
    this.#row = called(() => new Row(length));
    this.#length = length;
  }

  /**
   * The logits. Take this view anew for each row: WebAssembly's memory may have moved since.
   *
   * @returns {Float32Array<ArrayBuffer>}
   */
  get values() {
    if (this.#values === null || this.#values.buffer !== memory.buffer) {
      this.#values = new Float32Array(/** @type {ArrayBuffer} */ (memory.buffer), this.#row.address(), this.#length);
    }
    return this.#values;
  }

  /** How many logits there are. */
  get length() {
    return this.#length;
  }

  /** Gives the memory back. */
  free() {
    this.#values = null;
    this.#row.free();
  }

  /**
   * The row of anything that has logits: of this class itself, or of the scratch row that `from` is copied into.
   *
   * @param {LogitsLike} from
   * @returns {Row}
   */
  static row(from) {
    if (from instanceof Logits) return from.#row;
    if (Array.isArray(from)) {
      const wrong = from.findIndex((logit) => typeof logit !== "number");
      if (wrong >= 0) throw noLogits(`logit ${wrong} is ${String(from[wrong])}, not a number`);
    } else if (!ArrayBuffer.isView(from) || !("length" in from)) {
      throw noLogits("must be an array of numbers or a typed array");
    }
    if (scratch === null || scratch.length !== from.length) {
      scratch?.free();
      scratch = null;
      scratch = new Logits(from.length);
    }
    scratch.values.set(from);
    return scratch.#row;
  }
}

/**
 * A typed array or a list of numbers. A Float32Array (or Float16Array) is taken bit for bit; other numbers are rounded to
 * 32 bits.
 *
 * @typedef {ArrayLike<number> | Logits} LogitsLike
 */

/** @type {Logits | null} */
let scratch = null;

/** @param {string} what */
function noLogits(what) {
  return new OnedrawError({ kind: "param", field: "logits", message: `logits: ${what}` });
}
