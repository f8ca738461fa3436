// What the reader has set: all that a text follows from, and a second setting beside it.

/** @typedef {import("../engine/contract.js").Params} Params */
/** @typedef {import("../engine/contract.js").Forced} Forced */
/** @typedef {import("../engine/contract.js").WriteQuestion} WriteQuestion */

/**
 * The parameters that are set, and the order of the stages; null for the default order.
 * @typedef {{ params: Params, order: string[] | null }} Setting
 */

/**
 * @typedef {object} State
 * @property {string} prompt
 * @property {Params} params
 * @property {string[] | null} order
 * @property {Forced[]} forced tokens that the reader chose or holds
 * @property {string | null} draft
 * @property {string | null} schema
 * @property {Setting | null} beside
 */

/** @typedef {"main" | "beside"} Side */

/** What a first visit shows: the story of the README. */
export const FIRST_PROMPT = "Once upon a time";
const FIRST_SEED = "7";
const FIRST_LENGTH = 120;

/** The parameters of the plain softmax, for models whose own settings do more. @type {Params} */
export const PLAIN = { temperature: 1, top_k: 0, top_p: 1, min_p: 0, repetition_penalty: 1 };

/**
 * The state of a first visit: the model's own settings.
 * @returns {State}
 */
export function firstState() {
  const params = { seed: FIRST_SEED, max_tokens: FIRST_LENGTH };
  return { prompt: FIRST_PROMPT, params, order: null, forced: [], draft: null, schema: null, beside: null };
}

/**
 * The setting of a side. The one beside shares seed and length, so that only its own parameters make a difference.
 * @param {State} state
 * @param {Side} side
 * @returns {Setting}
 */
export function settingOf(state, side) {
  if (side === "main" || state.beside === null) return { params: state.params, order: state.order };
  const { seed, max_tokens } = state.params;
  return { params: { ...state.beside.params, seed, max_tokens }, order: state.beside.order };
}

/**
 * The state with another setting on one side. Seed and length are set for both.
 * @param {State} state
 * @param {Side} side
 * @param {Setting} setting
 * @returns {State}
 */
export function withSetting(state, side, setting) {
  if (side === "main" || state.beside === null) return { ...state, ...setting };
  const { seed, max_tokens, ...own } = setting.params;
  return { ...state, params: { ...state.params, seed, max_tokens }, beside: { params: own, order: setting.order } };
}

/**
 * The parameters with one of them changed. One that has its default is left out.
 * @param {Params} params
 * @param {{ name: string, default: unknown }} parameter
 * @param {unknown} value
 * @returns {Params}
 */
export function withParam(params, parameter, value) {
  const { [parameter.name]: _, ...others } = params;
  const isDefault = JSON.stringify(value) === JSON.stringify(parameter.default);
  return isDefault || value === null ? others : { ...others, [parameter.name]: value };
}

/**
 * The question for the text of a side.
 * @param {State} state
 * @param {Side} side
 * @returns {WriteQuestion}
 */
export function writeQuestion(state, side) {
  const { params, order } = settingOf(state, side);
  const { prompt, forced, draft, schema } = state;
  const question = { prompt, params, forced, draft, schema };
  return order === null ? question : { ...question, order };
}

/**
 * Holds the tokens before a position, for the text to go on from there.
 * @param {{ position: number, id: number }[]} tokens the text so far
 * @param {number} position
 * @returns {Forced[]}
 */
export function heldBefore(tokens, position) {
  return tokens
    .filter((token) => token.position < position)
    .map((token) => ({ position: token.position, token: token.id }));
}
