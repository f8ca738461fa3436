/**
 * Workers: those of browsers and Deno, and those of Node, which are used in another way.
 *
 * @typedef {object} Port
 * @property {(message: any, transfer?: ArrayBuffer[]) => void} post
 * @property {() => void} end
 */

/**
 * Starts a module of this package in a worker.
 *
 * @param {URL} url
 * @param {(message: any) => void} heard is given what the worker posts
 * @param {(cause: string) => void} failed is told why the worker has ended by itself
 * @returns {Port}
 */
export function started(url, heard, failed) {
  if (typeof Worker === "function") {
    const worker = new Worker(url, { type: "module" });
    worker.onmessage = ({ data }) => heard(data);
    worker.onerror = (event) => failed(event.message ?? "its module cannot be loaded");
    return { post: (message, transfer = []) => worker.postMessage(message, transfer), end: () => worker.terminate() };
  }
  const threads = globalThis.process?.getBuiltinModule?.("node:worker_threads");
  if (!threads) throw new Error("this program has no workers");
  const worker = new threads.Worker(url);
  worker.on("message", heard);
  worker.on("error", (error) => failed(error.message));
  return { post: (message, transfer = []) => worker.postMessage(message, transfer), end: () => void worker.terminate() };
}

/**
 * The other end, in the worker.
 *
 * @param {(message: any) => void} heard is given what comes
 * @returns {(message: any) => void} posts an answer
 */
export function answering(heard) {
  const scope = /** @type {any} */ (globalThis);
  const node = typeof scope.postMessage !== "function";
  const port = node ? scope.process.getBuiltinModule("node:worker_threads").parentPort : scope;
  if (node) port.on("message", heard);
  else scope.onmessage = (/** @type {MessageEvent} */ { data }) => heard(data);
  return (message) => port.postMessage(message);
}

/** Lets messages in. A timer would wait for milliseconds in a browser. */
export function turn() {
  return new Promise((resolve) => {
    const scope = /** @type {any} */ (globalThis);
    if (scope.setImmediate) return scope.setImmediate(resolve);
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve(undefined);
    };
    port2.postMessage(null);
  });
}
