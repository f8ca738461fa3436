// Which engine answers: the server that serves the page, or a worker of the browser.

import { ServerEngine } from "./server.js";
import { startWorker } from "./worker.js";

/** @typedef {import("./contract.js").Engine} Engine */

/**
 * @param {(message: string) => Promise<string | null>} askForKey
 * @param {(loaded: number, total: number | null) => void} progress
 * @returns {Promise<Engine>}
 */
export async function chooseEngine(askForKey, progress) {
  if (livesInBrowser()) return startWorker(progress);
  return new ServerEngine(askForKey);
}

/** Whether this is the site that needs no server. */
export function livesInBrowser() {
  return document.querySelector('meta[name="engine"]')?.getAttribute("content") === "browser";
}
