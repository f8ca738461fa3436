// What there is to say about a token of a text, in one sentence.

import { percent, short } from "./figures.js";

/** @typedef {import("../engine/contract.js").Token} Token */

/**
 * @param {Token} token
 * @returns {string}
 */
export function factsOf(token) {
  const { raw_probability, probability, rank, entropy, forced } = token;
  // No row was read for it.
  if (raw_probability === null) return "The schema left no other choice.";
  const facts = [`The model alone gives it ${percent(raw_probability)}`];
  if (probability !== null) facts.push(forced ? held(probability) : `it was drawn with ${percent(probability)}`);
  if (rank !== null) facts.push(`rank ${rank}`);
  if (entropy !== null) facts.push(`${short(entropy)} bits of choice`);
  return `${facts.join("; ")}.`;
}

/**
 * A token that the reader chose or holds was not drawn, whatever its chance was.
 * @param {number} probability
 */
function held(probability) {
  return probability === 0
    ? "it is held, not drawn: the stages had removed it"
    : `it is held, not drawn: a draw would have taken it with ${percent(probability)}`;
}

/**
 * What the parameters of the page draw in the place of a token. Null where it is the same token.
 * @param {Token} token
 * @param {{ id: number }} drawn
 * @returns {string | null}
 */
export function insteadOf(token, drawn) {
  if (token.id === drawn.id) return token.forced ? "A draw would take this token, too." : null;
  return token.forced ? "Were it not held, a draw would take" : "With these parameters, the draw takes";
}
