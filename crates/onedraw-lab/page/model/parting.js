// Where two texts part.

/**
 * The first position at which two texts have different tokens, or one of them has none. Null while they are equal.
 * @param {{ id: number }[]} one
 * @param {{ id: number }[]} other
 * @param {boolean} areWhole whether both texts have ended
 * @returns {number | null}
 */
export function parting(one, other, areWhole) {
  const shared = Math.min(one.length, other.length);
  for (let position = 0; position < shared; position++) {
    if (one[position]?.id !== other[position]?.id) return position;
  }
  return areWhole && one.length !== other.length ? shared : null;
}
