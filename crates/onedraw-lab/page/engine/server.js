// The engine behind `onedraw serve`: each question is a POST, each answer a stream of lines.

import { Failure, failureOf } from "./contract.js";
import { linesOf } from "./lines.js";

/** @typedef {import("./contract.js").Engine} Engine */

const LOST =
  "The server cannot be reached. Is it still running? What is written here stays; try again once it is back.";

/** @implements {Engine} */
export class ServerEngine {
  /** @type {string | null} kept in memory alone */
  #key = null;
  #askForKey;

  /** @param {(message: string) => Promise<string | null>} askForKey asks the reader; null where they decline */
  constructor(askForKey) {
    this.#askForKey = askForKey;
  }

  /**
   * @param {string} question
   * @param {object} body
   * @param {AbortSignal} [signal]
   * @returns {AsyncGenerator<object, void, void>}
   */
  async *ask(question, body, signal) {
    let response = await this.#post(question, body, signal);
    while (response.status === 401) {
      const refused = this.#key !== null;
      const key = await this.#askForKey(refused ? "The server does not know this key." : "This server asks for a key.");
      if (key === null) throw new Failure("key", "The server does not answer without its key.");
      this.#key = key;
      response = await this.#post(question, body, signal);
    }
    if (!response.ok) throw await refusal(response);
    if (response.body === null) throw new Failure("cut", "The server's answer is empty. Try again.");
    try {
      for await (const line of linesOf(response.body)) {
        const failure = failureOf(line);
        if (failure !== null) throw failure;
        yield line;
      }
    } catch (error) {
      throw lost(error);
    }
  }

  /**
   * @param {string} question
   * @param {object} body
   * @param {AbortSignal} [signal]
   */
  async #post(question, body, signal) {
    /** @type {Record<string, string>} */
    const headers = { "content-type": "application/json" };
    if (this.#key !== null) headers.authorization = `Bearer ${this.#key}`;
    try {
      return await fetch(`lab/${question}`, { method: "POST", headers, body: JSON.stringify(body), signal });
    } catch (error) {
      throw lost(error);
    }
  }
}

/**
 * What a broken connection means to the reader. Other errors stay what they are.
 * @param {unknown} error
 */
function lost(error) {
  return error instanceof TypeError ? new Failure("lost", LOST) : error;
}

/**
 * The error of a response that is not an answer.
 * @param {Response} response
 * @returns {Promise<Failure>}
 */
async function refusal(response) {
  const text = await response.text().catch(() => "");
  try {
    const body = JSON.parse(text);
    const failure = failureOf(body) ?? failureOf({ kind: "error", error: body.error });
    if (failure !== null) return failure;
  } catch {
    // Not one of ours; the status has to do.
  }
  return new Failure(
    "refused",
    `The server answered with the status ${response.status}, which the page does not understand.`,
  );
}
