/** The sampler's WebAssembly, loaded once. */

import { compiled } from "./load.js";
import { initSync } from "./wasm/sampler.js";

const module = await compiled(new URL("./wasm/sampler_bg.wasm", import.meta.url));

/** Its memory, in which rows of logits lie. */
export const memory = initSync({ module }).memory;
