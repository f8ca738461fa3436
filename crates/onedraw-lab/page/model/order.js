// The order of the stages.

/**
 * The order with one stage moved to before another; null for the end.
 * @param {string[]} order
 * @param {string} stage
 * @param {string | null} before
 * @returns {string[]}
 */
export function moved(order, stage, before) {
  if (stage === before) return order;
  const others = order.filter((other) => other !== stage);
  const at = before === null ? others.length : others.indexOf(before);
  return at < 0 ? order : others.toSpliced(at, 0, stage);
}

/**
 * The order as it is kept in a state: null where it is the default.
 * @param {string[]} order
 * @param {string[]} usual
 * @returns {string[] | null}
 */
export function kept(order, usual) {
  return isSame(order, usual) ? null : order;
}

/** @param {string[]} one @param {string[]} other */
export function isSame(one, other) {
  return one.length === other.length && one.every((stage, index) => stage === other[index]);
}
