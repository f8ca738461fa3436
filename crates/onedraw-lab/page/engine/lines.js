// Lines of JSON from a stream of bytes.

import { Failure } from "./contract.js";

/**
 * Gives the objects of a stream, one for each line. The last line may end without a line feed.
 * @param {ReadableStream<Uint8Array>} stream
 * @returns {AsyncGenerator<object, void, void>}
 */
export async function* linesOf(stream) {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      rest += decoder.decode(value, { stream: !done });
      const lines = rest.split("\n");
      rest = done ? "" : (lines.pop() ?? "");
      for (const line of lines) if (line.trim() !== "") yield parsed(line);
      if (done) return;
    }
  } finally {
    // Who stops listening stops the work, too.
    reader.cancel().catch(() => {});
  }
}

/**
 * @param {string} line
 * @returns {object}
 */
function parsed(line) {
  try {
    return JSON.parse(line);
  } catch {
    throw new Failure("cut", "The answer was cut off in the middle of a line. Write again to get the rest.");
  }
}
