// What became of each rival of a draw, from what its stages tell.

/** @typedef {import("../engine/contract.js").Look} Look */
/** @typedef {import("../engine/contract.js").Stage} Stage */

/**
 * A token that could have been drawn.
 * @typedef {object} Rival
 * @property {number} id
 * @property {string} text
 * @property {number | null} before its probability before; null where it is not among those listed
 * @property {number | null} after null where it is not among those listed; 0 where it went
 * @property {string | null} gone the stage that removed it
 * @property {number | null} short by how little it went
 */

/**
 * The rivals over a span of stages: before the first of them and after the last. The token that is drawn is among them.
 * @param {Look} look
 * @param {number} first an index of `look.stages`; its answer is what was before
 * @param {number} last an index of `look.stages`, at least `first`
 * @param {number} most so many are told
 * @returns {Rival[]} those that were most likely before, the best first
 */
export function rivals(look, first, last, most) {
  const before = look.stages[first];
  const after = look.stages[last];
  if (before === undefined || after === undefined) return [];
  /** @type {Map<number, Rival>} */
  const found = new Map();
  for (const { id, text, probability } of before.leading) {
    found.set(id, { id, text, before: probability, after: null, gone: null, short: null });
  }
  const stages = look.stages.slice(first + 1, last + 1);
  for (const [index, stage] of stages.entries()) {
    for (const { id, text, probability, short } of stage.removed) {
      // Only the first stage of the span tells a probability before the span.
      const rival = found.get(id) ?? { id, text, before: index === 0 ? probability : null };
      found.set(id, { ...rival, after: 0, gone: stage.stage, short });
    }
  }
  for (const { id, text, probability } of after.leading) {
    const rival = found.get(id) ?? { id, text, before: null };
    found.set(id, { ...rival, after: probability, gone: null, short: null });
  }
  const { id, text } = look.token;
  const isEnd = last === look.stages.length - 1;
  const drawn = found.get(id) ?? {
    id,
    text,
    before: null,
    after: isEnd ? look.probability : null,
    gone: null,
    short: null,
  };
  // A token that was not among the first before and went is nobody's rival.
  const others = [...found.values()].filter((rival) => rival !== drawn && weight(rival) > 0).sort(byWeight);
  return [...others.slice(0, most - 1), drawn].sort(byWeight);
}

/** @param {Rival} a @param {Rival} b */
function byWeight(a, b) {
  return weight(b) - weight(a) || (b.after ?? 0) - (a.after ?? 0);
}

/** @param {Rival} rival */
function weight(rival) {
  return Math.max(rival.before ?? 0, rival.after ?? 0);
}
