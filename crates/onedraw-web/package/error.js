/** An error of onedraw. `kind` and `field` are for programs; the message is a sentence. */
export class OnedrawError extends Error {
  /** @param {{ kind: string, field?: string | null, message: string }} error */
  constructor({ kind, field = null, message }) {
    super(message);
    this.name = "OnedrawError";
    /**
     * What is wrong: `param` for a parameter or an argument, or a name of the row's error, such as `nan_logit`.
     * @readonly
     */
    this.kind = kind;
    /**
     * The parameter, where it is one.
     * @readonly
     */
    this.field = field;
  }
}

/**
 * Runs a call of WebAssembly, whose errors are text.
 *
 * @template T
 * @param {() => T} call
 * @returns {T}
 */
export function called(call) {
  try {
    return call();
  } catch (thrown) {
    throw typeof thrown === "string" ? new OnedrawError(JSON.parse(thrown)) : thrown;
  }
}

/**
 * An argument that WebAssembly takes as 32 bits, of which it would otherwise drop the rest without a word.
 *
 * @param {string} field
 * @param {number} value
 * @returns {number}
 */
export function natural(field, value) {
  if (Number.isInteger(value) && value >= 0 && value <= 0xffff_ffff) return value;
  throw new OnedrawError({ kind: "param", field, message: `${field}: must be 0 to 2^32-1, not ${String(value)}` });
}
