// A worker's side of the conversation: questions are answered pass by pass, one after the other in turn, so that a look
// does not wait for a long text, and a stop is heard between two passes.

/**
 * The laboratory in WebAssembly.
 * @typedef {object} Laboratory
 * @property {(question: string, body: string) => number} begin begins an answer and gives its number
 * @property {(answer: number) => string | undefined} step goes on with an answer: the lines that follow, each with its
 *   line feed; undefined once it has ended
 * @property {(answer: number) => void} drop forgets an answer
 */

export class Serving {
  #laboratory;
  #post;
  /** The answers under way, by the number of the question. @type {Map<number, number>} */
  #answers = new Map();
  #isWorking = false;

  /**
   * @param {Laboratory} laboratory
   * @param {(message: object) => void} post
   */
  constructor(laboratory, post) {
    this.#laboratory = laboratory;
    this.#post = post;
  }

  /** @param {any} message of the page: a question, or that it has heard enough */
  take(message) {
    const { ask, question, body, stop } = message;
    if (stop) {
      const answer = this.#answers.get(ask);
      if (answer !== undefined && this.#answers.delete(ask)) this.#laboratory.drop(answer);
      return;
    }
    this.#answers.set(ask, this.#laboratory.begin(question, JSON.stringify(body)));
    if (!this.#isWorking) this.#work();
  }

  async #work() {
    this.#isWorking = true;
    while (this.#answers.size > 0) {
      for (const [ask, answer] of [...this.#answers]) {
        if (this.#answers.get(ask) === answer) this.#step(ask, answer);
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
