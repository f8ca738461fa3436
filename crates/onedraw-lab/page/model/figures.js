// Numbers and tokens as they are shown.

/**
 * A probability in per cent, with as many digits as tell something.
 * @param {number} probability
 */
export function percent(probability) {
  const value = probability * 100;
  if (value === 0) return "0 %";
  if (value < 0.01) return "< 0.01 %";
  if (value < 1) return `${value.toFixed(2)} %`;
  if (value < 99.95) return `${value.toFixed(1)} %`;
  return value === 100 ? "100 %" : "> 99.9 %";
}

/**
 * A number with at most three digits after the point.
 * @param {number} value
 */
export function short(value) {
  return String(Math.round(value * 1000) / 1000);
}

/** A number of bytes, in megabytes. @param {number} bytes */
export function megabytes(bytes) {
  return (bytes / 1e6).toFixed(1);
}

/**
 * A token's text with its spaces and line ends made visible.
 * @param {string} text
 */
export function visible(text) {
  if (text === "") return "∅";
  return text.replaceAll(" ", "␣").replaceAll("\n", "↵").replaceAll("\t", "⇥");
}

/**
 * A token's text as a screen reader should say it.
 * @param {string} text
 */
export function spoken(text) {
  const said = text.trim();
  if (said !== "") return said;
  if (text.includes("\n")) return "line end";
  return text === "" ? "nothing" : "space";
}
