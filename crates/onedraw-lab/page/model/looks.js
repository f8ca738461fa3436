// Looks at draws. At most one is under way; of those that wait, the latest wins.

/** @typedef {import("../engine/contract.js").Engine} Engine */
/** @typedef {import("../engine/contract.js").Look} Look */
/** @typedef {import("../engine/contract.js").LookQuestion} LookQuestion */

import { Failure, askOnce } from "../engine/contract.js";

/** @typedef {(look: Look | null, failure: Failure | null) => void} Deliver */

/** How many answers are kept: the same question has the same answer. */
const KEPT = 256;

export class Looks {
  #engine;
  /** @type {Map<string, Look>} */
  #kept = new Map();
  /** @type {{ question: LookQuestion, deliver: Deliver } | null} */
  #waiting = null;
  /** The one under way whose answer is still wanted. @type {{ question: LookQuestion, deliver: Deliver } | null} */
  #wanted = null;
  #isAsking = false;
  /** How many times answers were forgotten: one that was asked for before that is not kept. */
  #forgotten = 0;

  /** @param {Engine} engine */
  constructor(engine) {
    this.#engine = engine;
  }

  /**
   * Asks, once the one under way is answered. A later call takes the place of one that waits.
   * @param {LookQuestion} question
   * @param {Deliver} deliver
   */
  ask(question, deliver) {
    const known = this.#kept.get(JSON.stringify(question));
    if (known !== undefined) {
      this.#waiting = null;
      // An answer that comes later is to an earlier question.
      this.#wanted = null;
      deliver(known, null);
      return;
    }
    this.#waiting = { question, deliver };
    if (!this.#isAsking) this.#work();
  }

  /**
   * Forgets the answers from a position on. The tokens there were taken back, and what is drawn after the same tokens
   * the next time is another draw.
   * @param {number} position
   */
  forget(position) {
    this.#forgotten++;
    for (const [key, look] of this.#kept) if (look.position >= position) this.#kept.delete(key);
  }

  async #work() {
    this.#isAsking = true;
    for (let next = this.#waiting; next !== null; next = this.#waiting) {
      this.#waiting = null;
      this.#wanted = next;
      const { question, deliver } = next;
      const forgotten = this.#forgotten;
      /** @type {Look | null} */
      let look = null;
      /** @type {Failure | null} */
      let failure = null;
      try {
        look = /** @type {Look} */ (await askOnce(this.#engine, "look", question));
        if (forgotten === this.#forgotten) this.#keep(question, look);
      } catch (error) {
        failure = error instanceof Failure ? error : new Failure("page", String(error));
      }
      // Where a later question waits, this answer is still shown: a slider under way shows where it was.
      if (this.#wanted === next) deliver(look, failure);
    }
    this.#isAsking = false;
  }

  /**
   * @param {LookQuestion} question
   * @param {Look} look
   */
  #keep(question, look) {
    this.#kept.set(JSON.stringify(question), look);
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > KEPT && oldest !== undefined) this.#kept.delete(oldest);
  }
}
