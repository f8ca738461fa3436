import "./engine.js";
import { OnedrawError, called, natural } from "./error.js";
import { Logits } from "./logits.js";
import { written } from "./params.js";
import { Sampler as Raw } from "./wasm/sampler.js";

/**
 * A drawn token.
 *
 * @typedef {object} Sampled
 * @property {number} token the token
 * @property {string} seed the seed that drew it, in decimal
 * @property {number} position the number of output tokens before it
 * @property {number} sequence which of the `n` sequences it belongs to
 * @property {number | null} probability the probability with which it was drawn, where `probability` or `logprobs` ask
 * @property {number | null} logprob its logprob as `logprobs_mode` says, where `logprobs` is set
 * @property {number | null} rank 1 + the tokens before it in the order, where `logprobs` is set
 * @property {TokenLogprob[]} logprobs the drawn token, then the best others, where `logprobs` is set
 * @property {number | null} mirostat_mu where mirostat stands once the token is accepted, where it is on
 * @property {Kept} [kept] the tokens that could have been drawn, where `kept` asks
 *
 * @typedef {object} Kept
 * @property {number} count how many there are
 * @property {{ token: number, logit: number } | null} last the last of them in the order, where they are a prefix of it
 * @property {number} ln_mass the logarithm of their mass
 * @property {number[]} [ids] their ids in ascending order, where they were asked for
 *
 * @typedef {object} TokenLogprob
 * @property {number} token the id
 * @property {number} logprob the natural logarithm of its probability; in the logits modes its logit
 * @property {number} rank 1 + the tokens before it in the order
 *
 * @typedef {object} Distribution
 * @property {Uint32Array} tokens ids, logit descending, then id ascending
 * @property {Float64Array} probabilities their probabilities
 * @property {Float64Array} logprobs the logarithms of these
 *
 * @typedef {object} Candidate
 * @property {number} token the id
 * @property {number} probability before the stage for a token that goes, after it for one that stays
 *
 * @typedef {object} StageEffect
 * @property {string} stage its name; `row` for the row as it came
 * @property {number} tokens how many tokens are left
 * @property {number} mass the share of the mass before it that is left
 * @property {number} gone how many tokens went
 * @property {Candidate[]} removed the most likely of them
 * @property {Candidate} [border] where it cut the order at one place: the last token that stayed, with its probability
 *   before the stage
 * @property {Candidate} best the best token after it
 * @property {Candidate[]} leading the most likely tokens after it
 * @property {number} entropy the entropy after it, in bits
 * @property {number} temperature the temperature in force after it
 * @property {string} [decision] what it decided that is not in the parameters
 * @property {number} nanoseconds the time to find what is left
 *
 * @typedef {object} Explanation
 * @property {StageEffect[]} stages the unmodified row, then each stage in the order of the chain
 * @property {number} token the token that is drawn
 * @property {number} probability its probability
 * @property {number} position the position that is drawn
 * @property {string} seed the seed, in decimal
 *
 * @typedef {import("./logits.js").LogitsLike} LogitsLike
 * @typedef {import("./params.js").SamplingParams} SamplingParams
 */

/**
 * Draws the tokens of one sequence.
 *
 * ```js
 * const sampler = new Sampler({ top_k: 2, seed: 7 });
 * const { token } = sampler.sample([1, 3.5, 0.2, 2.9]);
 * ```
 */
export class Sampler {
  /** @type {Raw} */
  #raw;

  /** @param {SamplingParams} [params] */
  constructor(params = {}) {
    const { text, seed } = written(params);
    this.#raw = called(() => new Raw(text, seed));
  }

  /**
   * Draws the next token and appends it to the history.
   *
   * @param {LogitsLike} logits
   * @param {{ mask?: Uint32Array }} [options] `mask`: only tokens whose bit is set, 32 tokens a word, lowest bit first
   * @returns {Sampled}
   */
  sample(logits, { mask } = {}) {
    const row = Logits.row(logits);
    return JSON.parse(called(() => this.#raw.sample(row, words(mask))));
  }

  /**
   * Draws `ahead` positions after the next, and leaves the history as it is.
   *
   * @param {LogitsLike} logits
   * @param {number} [ahead]
   * @returns {Sampled}
   */
  peek(logits, ahead = 0) {
    const row = Logits.row(logits);
    return JSON.parse(called(() => this.#raw.peek(row, natural("ahead", ahead))));
  }

  /**
   * The token at share `uniform`, in [0, 1), of the kept mass, for a caller who brings the randomness.
   *
   * @param {LogitsLike} logits
   * @param {number} uniform
   * @returns {Sampled}
   */
  sampleUniform(logits, uniform) {
    const row = Logits.row(logits);
    return JSON.parse(called(() => this.#raw.sample_uniform(row, uniform)));
  }

  /**
   * Every token that can be drawn, with its probability. The history stays as it is.
   *
   * @param {LogitsLike} logits
   * @param {{ mask?: Uint32Array }} [options]
   * @returns {Distribution}
   */
  distribution(logits, { mask } = {}) {
    const row = Logits.row(logits);
    const found = called(() => this.#raw.distribution(row, words(mask)));
    try {
      return { tokens: found.tokens(), probabilities: found.probabilities(), logprobs: found.logprobs() };
    } finally {
      found.free();
    }
  }

  /**
   * Stage by stage, what the chain does to a row. The history stays as it is.
   *
   * @param {LogitsLike} logits
   * @param {{ mask?: Uint32Array, listed?: number }} [options] `listed`: how many tokens are named at each stage
   * @returns {Explanation}
   */
  explain(logits, { mask, listed = 10 } = {}) {
    const row = Logits.row(logits);
    return JSON.parse(called(() => this.#raw.explain(row, natural("listed", listed), words(mask))));
  }

  /**
   * Appends a token that was chosen elsewhere.
   *
   * @param {number} token
   */
  accept(token) {
    this.#raw.accept(natural("token", token));
  }

  /**
   * Takes back the tokens after the first `length` of the output. The same rows draw the same tokens again.
   *
   * @param {number} length
   */
  rewind(length) {
    this.#raw.rewind(natural("length", length));
  }

  /**
   * Takes text back because of what was drawn, as a `StopMatcher` says. The token that stood there is banned there, and
   * the noise is fresh.
   *
   * @param {import("./stop.js").Rewind} rewind
   */
  takeBack({ length, token, phrase }) {
    this.#raw.take_back(natural("length", length), natural("token", token), natural("phrase", phrase));
  }

  /**
   * Everything that a later draw depends on, as text for `Sampler.load`.
   *
   * @returns {string}
   */
  save() {
    return this.#raw.save();
  }

  /**
   * The sampler that was saved, here or by onedraw in another language.
   *
   * @param {string} saved
   * @returns {Sampler}
   */
  static load(saved) {
    const raw = called(() => Raw.load(saved));
    const sampler = new Sampler();
    sampler.#raw.free();
    sampler.#raw = raw;
    return sampler;
  }

  /** The seed, in decimal: the one given, or the one drawn from the system. */
  get seed() {
    return this.#raw.seed();
  }

  /** The position of the next draw: the number of tokens written so far. */
  get position() {
    return this.#raw.position();
  }

  /** The tokens written so far. */
  get output() {
    return this.#raw.output();
  }

  /** Gives the memory back now and not when the object is collected. */
  free() {
    this.#raw.free();
  }
}

/**
 * Draws one token.
 *
 * @param {LogitsLike} logits
 * @param {SamplingParams} [params]
 * @returns {Sampled}
 */
export function sample(logits, params) {
  return once(params, (sampler) => sampler.sample(logits));
}

/**
 * Every token that can be drawn, with its probability.
 *
 * @param {LogitsLike} logits
 * @param {SamplingParams} [params]
 * @returns {Distribution}
 */
export function distribution(logits, params) {
  return once(params, (sampler) => sampler.distribution(logits));
}

/**
 * Stage by stage, what the chain does to a row.
 *
 * @param {LogitsLike} logits
 * @param {SamplingParams} [params]
 * @param {{ listed?: number }} [options] `listed`: how many tokens are named at each stage
 * @returns {Explanation}
 */
export function explain(logits, params, options) {
  return once(params, (sampler) => sampler.explain(logits, options));
}

/**
 * @template T
 * @param {SamplingParams | undefined} params
 * @param {(sampler: Sampler) => T} use
 * @returns {T}
 */
function once(params, use) {
  const sampler = new Sampler(params);
  try {
    return use(sampler);
  } finally {
    sampler.free();
  }
}

/**
 * @param {Uint32Array | undefined} mask
 * @returns {Uint32Array | undefined}
 */
function words(mask) {
  if (mask === undefined || mask instanceof Uint32Array) return mask;
  throw new OnedrawError({ kind: "param", field: "mask", message: "mask: must be a Uint32Array" });
}
