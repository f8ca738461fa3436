// The five steps in which tokens are coloured: 0 is what was to be expected, 4 a surprise.

/** @typedef {import("../engine/contract.js").Token} Token */
/** @typedef {"probability" | "entropy" | "rank"} Measure */

/**
 * A measure: its value of a token, and the names of its steps.
 * @typedef {{ title: string, sentence: string, borders: number[], value: (token: Token) => number | null, labels: string[] }} Scale
 */

/** @type {Record<Measure, Scale>} */
export const SCALES = {
  probability: {
    title: "Probability",
    sentence: "How likely the token was when it was drawn.",
    borders: [0.2, 0.5, 0.8, 0.95],
    value: ({ probability }) => (probability === null ? null : 1 - probability),
    labels: ["over 80 %", "50–80 %", "20–50 %", "5–20 %", "under 5 %"],
  },
  entropy: {
    title: "Entropy",
    sentence: "How open the choice was, in bits: 1 is a coin, 0 no choice at all.",
    borders: [0.25, 1, 2, 3],
    value: (token) => token.entropy,
    labels: ["under 0.25", "0.25–1", "1–2", "2–3", "over 3 bits"],
  },
  rank: {
    title: "Rank",
    sentence: "The token's place in the model's order: 1 is its first choice.",
    borders: [1, 2, 5, 20],
    value: (token) => token.rank,
    labels: ["1", "2", "3–5", "6–20", "over 20"],
  },
};

/**
 * The step of a token, 0 to 4. A token that was the only choice is of step 0.
 * @param {Measure} measure
 * @param {Token} token
 */
export function stepOf(measure, token) {
  const { borders, value } = SCALES[measure];
  const found = value(token) ?? 0;
  return borders.filter((border) => found > border).length;
}
