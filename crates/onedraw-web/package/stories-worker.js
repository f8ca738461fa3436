/** The story model at work, in a worker. `stories.js` is the other end. */

import { OnedrawError, called } from "./error.js";
import { bytes, compiled } from "./load.js";
import { answering, turn } from "./thread.js";
import { Stories, initSync } from "./wasm/stories.js";

/** @typedef {import("./wasm/stories.js").Writing} Writing */

/** @type {Stories} */
let stories;

/**
 * The texts that are being written, by the number of their request.
 *
 * @type {Map<number, Writing>}
 */
const running = new Map();

const post = answering(async (message) => {
  const { id } = message;
  try {
    switch (message.ask) {
      case "open":
        return await open(message);
      case "write":
        running.set(id, called(() => stories.write(message.prompt, message.text, message.seed)));
        if (running.size === 1) await run();
        return;
      case "cancel":
        return end(id);
      case "encode":
        return post({ id, answer: called(() => stories.encode(message.text)) });
      case "decode":
        return post({ id, answer: stories.decode(message.tokens) });
    }
  } catch (error) {
    fail(id, error);
  }
});

/** @param {{ id: number, weights: Uint8Array | string }} message the weights, or where they are */
async function open({ id, weights }) {
  const module = compiled(new URL("./wasm/stories_bg.wasm", import.meta.url));
  const file =
    typeof weights === "string"
      ? await bytes(new URL(weights), (loaded, total) => post({ id, progress: { loaded, total } }))
      : weights;
  initSync({ module: await module });
  stories = called(() => new Stories(file));
  post({ id, answer: null });
}

/** Goes on with all texts, pass by pass. Between two passes messages come in. */
async function run() {
  while (running.size > 0) {
    for (const [id, writing] of running) {
      try {
        const events = JSON.parse(called(() => writing.step()));
        const isDone = writing.is_done();
        post({ id, events, isDone });
        if (isDone) end(id);
      } catch (error) {
        end(id);
        fail(id, error);
      }
    }
    await turn();
  }
}

/** @param {number} id */
function end(id) {
  running.get(id)?.free();
  running.delete(id);
}

/**
 * @param {number} id
 * @param {unknown} error
 */
function fail(id, error) {
  const { kind, field } = error instanceof OnedrawError ? error : { kind: "stories", field: null };
  post({ id, error: { kind, field, message: error instanceof Error ? error.message : String(error) } });
}
