import { OnedrawError } from "./error.js";

/** The smallest module that uses 128-bit vectors: a function that makes one and drops it. */
const VECTORS = new Uint8Array([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 4, 1, 96, 0, 0, 3, 2, 1, 0, 10, 9, 1, 7, 0, 65, 0, 253, 15, 26, 11,
]);

/**
 * Fetches and compiles a module of this package.
 *
 * @param {URL} url
 * @returns {Promise<WebAssembly.Module>}
 */
export async function compiled(url) {
  if (typeof WebAssembly !== "object") throw missing("WebAssembly");
  if (!WebAssembly.validate(VECTORS)) throw missing("WebAssembly's 128-bit vectors (SIMD)");
  return WebAssembly.compile(await bytes(url));
}

/**
 * The bytes of a file.
 *
 * @param {URL} url
 * @param {(loaded: number, total: number | null) => void} [progress] is told how many bytes have come
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 */
export async function bytes(url, progress = () => {}) {
  try {
    return await received(url, progress);
  } catch (error) {
    const { message, cause } = /** @type {Error} */ (error);
    const why = cause instanceof Error ? `${message}: ${cause.message}` : message;
    throw new OnedrawError({ kind: "fetch", message: `${url.href} cannot be loaded: ${why}` });
  }
}

/**
 * @param {URL} url
 * @param {(loaded: number, total: number | null) => void} progress
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 */
async function received(url, progress) {
  // Node does not fetch from the disk.
  const fs = url.protocol === "file:" ? globalThis.process?.getBuiltinModule?.("node:fs/promises") : undefined;
  if (fs) {
    const file = new Uint8Array(await fs.readFile(url));
    progress(file.length, file.length);
    return file;
  }
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${response.status} ${response.statusText}`);
  // The length of what is sent, which is not that of the file if it is compressed.
  const length = response.headers.has("content-encoding") ? null : response.headers.get("content-length");
  const total = length === null ? null : Number(length);
  /** @type {Uint8Array[]} */
  const parts = [];
  let loaded = 0;
  if (response.body) {
    const reader = response.body.getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      parts.push(part.value);
      loaded += part.value.length;
      progress(loaded, total);
    }
  }
  if (total !== null && loaded !== total) throw new Error(`${loaded} of ${total} bytes came`);
  const all = new Uint8Array(loaded);
  let place = 0;
  for (const part of parts) {
    all.set(part, place);
    place += part.length;
  }
  return all;
}

/** @param {string} what */
function missing(what) {
  return new OnedrawError({
    kind: "unsupported",
    message: `onedraw needs ${what}, which this browser or program does not have; every current browser has it`,
  });
}
