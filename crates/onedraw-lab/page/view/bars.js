// Two bars, one over the other: a probability before, as an outline, and after, filled.

import { svg } from "./dom.js";

/**
 * @param {number | null} before
 * @param {number | null} after
 * @param {number} most the probability that fills the width
 */
export function bar(before, after, most) {
  const width = (/** @type {number | null} */ value) => `${Math.min(100, (100 * (value ?? 0)) / most)}%`;
  return svg(
    "svg",
    { class: "bar", "aria-hidden": "true" },
    svg("rect", { class: "before", x: 0, y: 0, height: 14, width: width(before) }),
    svg("rect", { class: "after", x: 0, y: 4, height: 6, width: width(after) }),
  );
}
