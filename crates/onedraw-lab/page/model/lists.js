// Lists as the reader writes them: numbers with commas between, or strings, one on each line.

/**
 * @param {unknown} value a list or an object
 * @returns {string}
 */
export function shown(value) {
  if (value === null || value === undefined) return "";
  if (!Array.isArray(value)) return Object.keys(value).length === 0 ? "" : JSON.stringify(value);
  if (value.every((item) => typeof item === "number")) return value.join(", ");
  const areLines = value.every((item) => typeof item === "string" && isLine(item));
  return areLines ? value.join("\n") : JSON.stringify(value);
}

/**
 * @param {string} text
 * @returns {unknown} a list or an object; null where nothing is written
 */
export function read(text) {
  if (text.trim() === "") return null;
  if (/^\s*[[{]/.test(text)) return JSON.parse(text);
  if (/^\s*\d+(\s*,\s*\d+)*\s*$/.test(text)) return text.split(",").map(Number);
  return text.split("\n").filter((line) => line !== "");
}

/** Whether a string reads as itself where it stands on a line. @param {string} text */
function isLine(text) {
  return text.trim() !== "" && !/^\s*[[{\d]/.test(text) && !text.includes("\n");
}
