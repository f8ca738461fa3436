// Texts being written. The same question has the same text, so a text that ended is kept and shown again at once.

import { Failure } from "../engine/contract.js";

/** @typedef {import("../engine/contract.js").Engine} Engine */
/** @typedef {import("../engine/contract.js").WriteQuestion} WriteQuestion */
/** @typedef {import("../engine/contract.js").WriteLine} WriteLine */
/** @typedef {import("../engine/contract.js").Token} Token */
/** @typedef {import("../engine/contract.js").Pass} Pass */
/** @typedef {import("../engine/contract.js").Loading} Loading */

/**
 * A text, as far as it is written.
 * @typedef {object} Run
 * @property {WriteQuestion} question
 * @property {"writing" | "done" | "stopped" | "failed"} status
 * @property {string} seed
 * @property {import("../engine/contract.js").Piece[]} prompt
 * @property {Token[]} tokens
 * @property {Pass[]} passes
 * @property {string | null} finish
 * @property {Failure | null} failure
 * @property {Loading | null} loading the drafter that is being fetched
 */

/** How many texts are kept. */
const KEPT = 64;

export class Runs {
  #engine;
  #changed;
  /** @type {Map<string, Run>} texts that ended, the one asked for last at the end */
  #kept = new Map();
  /** @type {Map<Run, AbortController>} */
  #writing = new Map();

  /**
   * @param {Engine} engine
   * @param {(run: Run, line: WriteLine | null) => void} changed is called for each line that arrives, and at the end
   */
  constructor(engine, changed) {
    this.#engine = engine;
    this.#changed = changed;
  }

  /**
   * The text of a question, which may be written already or begins to be.
   * @param {WriteQuestion} question
   * @returns {Run}
   */
  write(question) {
    const key = JSON.stringify(question);
    const known = this.#kept.get(key) ?? this.#underWay(key);
    if (known !== undefined) {
      if (this.#kept.delete(key)) this.#kept.set(key, known);
      return known;
    }
    /** @type {Run} */
    const run = {
      question,
      status: "writing",
      seed: "",
      prompt: [],
      tokens: [],
      passes: [],
      finish: null,
      failure: null,
      loading: null,
    };
    const stop = new AbortController();
    this.#writing.set(run, stop);
    this.#follow(run, stop.signal);
    return run;
  }

  /**
   * The text of a question that is being written. One that was stopped and has not ended yet gets no further.
   * @param {string} key
   */
  #underWay(key) {
    for (const [run, stop] of this.#writing)
      if (!stop.signal.aborted && JSON.stringify(run.question) === key) return run;
    return undefined;
  }

  /** Stops what is being written, apart from these. @param {Run[]} wanted */
  stopOthers(wanted) {
    for (const [run, stop] of this.#writing) if (!wanted.includes(run)) stop.abort();
  }

  /**
   * @param {Run} run
   * @param {AbortSignal} signal
   */
  async #follow(run, signal) {
    try {
      for await (const line of this.#engine.ask("write", run.question, signal)) {
        const told = /** @type {WriteLine} */ (line);
        take(run, told);
        this.#changed(run, told);
      }
      if (run.status === "writing")
        throw new Failure("cut", "The text was cut off before its end. Write again to get the rest.");
    } catch (error) {
      run.status = signal.aborted ? "stopped" : "failed";
      if (!signal.aborted) run.failure = error instanceof Failure ? error : new Failure("page", String(error));
    }
    this.#writing.delete(run);
    run.loading = null;
    if (run.status === "done") this.#keep(run);
    this.#changed(run, null);
  }

  /** @param {Run} run */
  #keep(run) {
    this.#kept.set(JSON.stringify(run.question), run);
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > KEPT && oldest !== undefined) this.#kept.delete(oldest);
  }
}

/**
 * Adds a line to a text.
 * @param {Run} run
 * @param {WriteLine} line
 */
export function take(run, line) {
  switch (line.kind) {
    case "loading":
      run.loading = line;
      return;
    case "begin":
      run.loading = null;
      run.seed = line.seed;
      run.prompt = line.prompt;
      return;
    case "token":
      run.tokens.push(line);
      return;
    case "pass":
      run.passes.push(line);
      return;
    case "back":
      run.tokens = run.tokens.filter((token) => token.position < line.to);
      return;
    case "end":
      run.status = "done";
      run.finish = line.finish_reason;
      return;
    default:
    // A line of a later version, which says something that this page does not show.
  }
}

/**
 * The text of a run, without its prompt.
 * @param {Run} run
 */
export function textOf(run) {
  return run.tokens.map((token) => token.text).join("");
}
