// The questions and answers of the laboratory, as types. The README of the crate describes them.

/** @typedef {Record<string, unknown>} Params */
/** @typedef {{ position: number, token: number }} Forced */
/** @typedef {{ id: number, text: string }} Piece */

/**
 * A parameter that a control is made for.
 * @typedef {object} Parameter
 * @property {string} name
 * @property {string} group
 * @property {string | null} stage
 * @property {string} sentence
 * @property {"number" | "integer" | "flag" | "choice" | "list" | "text"} kind
 * @property {unknown} default
 * @property {number | null} [least]
 * @property {number | null} [most]
 * @property {number | null} [step]
 * @property {(string | number)[] | null} [choices]
 */

/**
 * What the engine is and can do.
 * @typedef {object} About
 * @property {{ id: string, hash: string, context: number, vocabulary: number }} model
 * @property {string | number} stream
 * @property {string} version
 * @property {Parameter[]} parameters
 * @property {string[]} order
 * @property {Record<string, string[]>} orders
 * @property {Record<string, Params>} presets
 * @property {{ name: string, sentence: string }[]} drafters
 */

/**
 * What a text follows from.
 * @typedef {object} WriteQuestion
 * @property {string} prompt
 * @property {Params} params
 * @property {string[]} [order]
 * @property {Forced[]} forced
 * @property {string | null} draft
 * @property {string | null} schema
 */

/** @typedef {WriteQuestion & { tokens: number[], position: number, listed: number }} LookQuestion */

/**
 * A token of a text. Its numbers are null where a constraint left no choice.
 * @typedef {object} Token
 * @property {"token"} kind
 * @property {number} position
 * @property {number} id
 * @property {string} text
 * @property {number | null} probability
 * @property {number | null} logprob
 * @property {number | null} raw_probability
 * @property {number | null} rank
 * @property {number | null} entropy
 * @property {boolean} forced
 */

/** @typedef {Piece & { accepted: boolean }} Guess */
/** @typedef {{ kind: "pass", position: number, guesses: Guess[] }} Pass */

/**
 * A drafter that is on its way, where the model is in the browser: how many of its bytes have come.
 * @typedef {{ kind: "loading", drafter: string, loaded: number, total: number }} Loading
 */

/**
 * A line of the answer to `write`.
 * @typedef {{ kind: "begin", seed: string, prompt: Piece[] } | Token | Pass | Loading | { kind: "back", to: number }
 *   | { kind: "end", finish_reason: string, text: string }} WriteLine
 */

/** @typedef {Piece & { probability: number }} Candidate */
/** @typedef {Candidate & { short: number | null }} Removed */

/**
 * What one stage did.
 * @typedef {object} Stage
 * @property {string} stage
 * @property {number} tokens
 * @property {number} mass
 * @property {number} gone
 * @property {Removed[]} removed
 * @property {Candidate[]} leading
 * @property {number} entropy
 * @property {number} temperature
 * @property {string | null} [decision]
 */

/**
 * A draw, stage by stage.
 * @typedef {object} Look
 * @property {number} position
 * @property {string} seed
 * @property {Piece} token
 * @property {number} probability
 * @property {number} masked
 * @property {Stage[]} stages
 */

/**
 * @typedef {object} BeamNode
 * @property {number} node
 * @property {number | null} parent
 * @property {number} id
 * @property {string} text
 * @property {number} logprob
 * @property {boolean} kept
 */

/**
 * What a search follows from.
 * @typedef {object} BeamsQuestion
 * @property {string} prompt
 * @property {Params} params
 * @property {string | null} schema
 * @property {{ width: number, length_penalty?: number, style?: "hf" | "vllm" | "gnmt" }} beams
 */

/** @typedef {{ node: number | null, text: string, logprob: number, score: number }} Found */
/** @typedef {{ nodes: BeamNode[], found: Found[] }} Beams */

/** @typedef {{ program: string, rust: string, python: string, curl: string, notes: string[] }} Code */

/**
 * Somebody who answers questions.
 * @typedef {object} Engine
 * @property {(question: string, body: object, signal?: AbortSignal) => AsyncGenerator<object, void, void>} ask
 *   Gives the lines of the answer. Throws a `Failure` where the answer is an error.
 */

/** A question that could not be answered. Its message is a sentence for the reader. */
export class Failure extends Error {
  /**
   * @param {string} kind
   * @param {string} message
   * @param {string | null} [field] what it is about, such as a parameter's name
   */
  constructor(kind, message, field = null) {
    super(message);
    this.kind = kind;
    this.field = field;
  }
}

/**
 * The error of a line; null where the line is an answer.
 * @param {any} line
 * @returns {Failure | null}
 */
export function failureOf(line) {
  if (line?.kind !== "error" || typeof line.error?.message !== "string") return null;
  return new Failure(String(line.error.kind), line.error.message, line.error.field ?? null);
}

/**
 * The only line of an answer.
 * @param {Engine} engine
 * @param {string} question
 * @param {object} body
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function askOnce(engine, question, body, signal) {
  for await (const line of engine.ask(question, body, signal)) return line;
  throw new Failure("cut", "The answer ended before it began. Try again.");
}
