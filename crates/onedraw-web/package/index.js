/**
 * onedraw: logits in, a token out. The token depends on the logits' bits, the parameters, the history, the seed and the
 * position, and on nothing else, so a page draws what a server draws.
 *
 * ```js
 * import { Sampler } from "onedraw";
 *
 * const sampler = new Sampler({ temperature: 0.8, top_p: 0.9, seed: 42 });
 * const { token } = sampler.sample(logits);
 * ```
 *
 * Importing this module loads its WebAssembly. Where that cannot run, the import fails with a sentence.
 *
 * @module
 */

import { stream_version, version as version_of } from "./wasm/sampler.js";
import "./engine.js";

export { OnedrawError } from "./error.js";
export { Logits } from "./logits.js";
export { Sampler, distribution, explain, sample } from "./sampler.js";
export { StopMatcher } from "./stop.js";

/** The version of the package. */
export const version = version_of();

/** The version of the streams: which token a seed draws. It changes with any change to a drawn token. */
export const streamVersion = stream_version();

/**
 * @typedef {import("./params.js").SamplingParams} SamplingParams
 * @typedef {import("./sampler.js").Sampled} Sampled
 * @typedef {import("./sampler.js").TokenLogprob} TokenLogprob
 * @typedef {import("./sampler.js").Distribution} Distribution
 * @typedef {import("./sampler.js").Explanation} Explanation
 * @typedef {import("./sampler.js").StageEffect} StageEffect
 * @typedef {import("./sampler.js").Candidate} Candidate
 * @typedef {import("./stop.js").Progress} Progress
 * @typedef {import("./stop.js").Rewind} Rewind
 */
