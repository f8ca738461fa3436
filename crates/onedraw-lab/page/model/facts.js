// What there is to say about a token of a text, in one sentence.

import { percent, short } from "./figures.js";

/** @typedef {import("../engine/contract.js").Look} Look */
/** @typedef {import("../engine/contract.js").Token} Token */

/**
 * Whether the reader chose a token or holds it. Where a schema leaves no other choice, a token is forced, too, but no row
 * was read for it.
 * @param {Pick<Token, "forced" | "probability">} token
 */
export function isHeld({ forced, probability }) {
  return forced && probability !== null;
}

/**
 * @param {Token} token
 * @returns {string}
 */
export function factsOf(token) {
  const { raw_probability, probability, rank, entropy } = token;
  // No row was read for it.
  if (raw_probability === null) return "The schema left no other choice.";
  const facts = [`The model alone gives it ${percent(raw_probability)}`];
  if (probability !== null) facts.push(isHeld(token) ? held(probability) : `it was drawn with ${percent(probability)}`);
  if (rank !== null) facts.push(`rank ${rank}`);
  if (entropy !== null) facts.push(`${short(entropy)} bits of choice`);
  return `${facts.join("; ")}.`;
}

/**
 * What is said of a token that is held.
 * @param {number} probability
 */
function held(probability) {
  return probability === 0
    ? "it is held, not drawn: the stages had removed it"
    : `it is held, not drawn: a draw would have taken it with ${percent(probability)}`;
}

/**
 * What the card says of a draw: of a token that is held, what it is, and otherwise what is drawn.
 * @param {Token | undefined} own the token of the text, which need not be the one that a draw takes
 * @param {Look} look
 * @returns {{ text: string, said: string }}
 */
export function inShort(own, look) {
  if (own !== undefined && isHeld(own)) return { text: own.text, said: "held, not drawn" };
  return { text: look.token.text, said: percent(look.probability) };
}

/**
 * What the parameters of the page draw in the place of a token. Null where it is the same token.
 * @param {Token} token
 * @param {{ id: number }} drawn
 * @returns {string | null}
 */
export function insteadOf(token, drawn) {
  if (token.id === drawn.id) return isHeld(token) ? "A draw would take this token, too." : null;
  return isHeld(token) ? "Were it not held, a draw would take" : "With these parameters, the draw takes";
}
