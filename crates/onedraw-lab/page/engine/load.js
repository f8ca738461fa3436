// What the site without a server fetches: the files of the model, with progress, and whole.

import { Failure } from "./contract.js";

/** @typedef {{ path: string, bytes: number }} Part a file of the site, and its length */

/**
 * `site.json`, which the command that makes the site writes.
 * @typedef {object} Site
 * @property {string} module the JavaScript beside the WebAssembly
 * @property {Record<string, Part>} model the files of the model, by the names that the laboratory knows
 * @property {Record<string, Part>} drafters what is fetched for a drafter once it is chosen, by its name
 * @property {string[]} files what is kept for a browser that is offline, from the folder of the whole site
 */

/** A module with one SIMD instruction: `i8x16.splat`, then `drop`. */
const SIMD = new Uint8Array([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 4, 1, 96, 0, 0, 3, 2, 1, 0, 10, 9, 1, 7, 0, 65, 0, 253, 15, 26, 11,
]);

/** Throws where the browser cannot run the laboratory. */
export function checkBrowser() {
  if (typeof WebAssembly === "object" && WebAssembly.validate(SIMD)) return;
  const message =
    "This browser has no WebAssembly with SIMD, which the model needs. Any current browser has it; `onedraw lab` works in this one, too.";
  throw new Failure("browser", message);
}

/**
 * @param {URL} base the folder of the site
 * @returns {Promise<Site>}
 */
export async function fetchSite(base) {
  const response = await got(new URL("site.json", base));
  return response.json();
}

/**
 * Fetches all files of the model.
 * @param {URL} base the folder of the site
 * @param {Record<string, Part>} parts
 * @param {(loaded: number, total: number) => void} progress in bytes
 * @returns {Promise<Record<string, Uint8Array>>}
 */
export async function fetchModel(base, parts, progress) {
  const total = Object.values(parts).reduce((sum, { bytes }) => sum + bytes, 0);
  let loaded = 0;
  progress(0, total);
  /** @type {Record<string, Uint8Array>} */
  const files = {};
  for (const [name, part] of Object.entries(parts)) {
    files[name] = await fetchPart(base, part, (here) => progress(loaded + here, total));
    loaded += part.bytes;
  }
  return files;
}

/**
 * Fetches a file.
 * @param {URL} base the folder of the site
 * @param {Part} part
 * @param {(loaded: number, total: number) => void} progress in bytes
 */
export async function fetchPart(base, { path, bytes }, progress) {
  const { body } = await got(new URL(path, base));
  const file = new Uint8Array(bytes);
  let at = 0;
  try {
    const reader = body?.getReader();
    for (let next = await reader?.read(); next !== undefined && !next.done; next = await reader?.read()) {
      if (at + next.value.length > bytes) throw changed(path);
      file.set(next.value, at);
      at += next.value.length;
      progress(at, bytes);
    }
  } catch (error) {
    throw error instanceof Failure ? error : cut(path, at, bytes);
  }
  if (at < bytes) throw cut(path, at, bytes);
  return file;
}

/** @param {URL} url */
async function got(url) {
  const response = await fetch(url).catch(() => null);
  if (response?.ok) return response;
  const why = response === null ? "there is no connection" : `the site answers ${response.status}`;
  throw new Failure("missing", `The file ${url.pathname} did not arrive: ${why}. Try again.`);
}

/**
 * @param {string} path
 * @param {number} arrived
 * @param {number} bytes
 */
function cut(path, arrived, bytes) {
  return new Failure("cut", `The file ${path} was cut off after ${arrived} of ${bytes} bytes. Try again.`);
}

/** @param {string} path */
function changed(path) {
  return new Failure("changed", `The file ${path} is not the one that this page knows. Reload the page.`);
}
