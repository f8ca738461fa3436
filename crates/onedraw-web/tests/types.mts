// What TypeScript makes of the package. It is checked and not run; every line after `@ts-expect-error` must be an error.

import { Logits, OnedrawError, Sampler, StopMatcher, distribution, explain, sample } from "onedraw";
import type { Distribution, Explanation, Progress, Sampled, SamplingParams } from "onedraw";
import { loadStories } from "onedraw/stories";
import type { Story, StoryEvent } from "onedraw/stories";

const params: SamplingParams = {
  temperature: 0.8,
  top_p: 0.9,
  seed: 2n ** 63n,
  logit_bias: { 5: 1.5 },
  stop: ["a", "b"],
  eos_token_id: 2,
  prompt_token_ids: BigInt64Array.of(1n),
  logprobs_mode: "processed_logprobs",
};
// @ts-expect-error: no such parameter
const misspelt: SamplingParams = { top_q: 1 };
// @ts-expect-error: not one of the modes
const mode: SamplingParams = { logprobs_mode: "all" };
// @ts-expect-error: a seed is no truth
sample([1], { seed: true });

const sampler = new Sampler(params);
const drawn: Sampled = sampler.sample(new Float32Array(4), { mask: Uint32Array.of(1) });
const token: number = drawn.token;
const seed: string = drawn.seed;
// @ts-expect-error: there may be none
const logprob: number = drawn.logprob;
const logits = new Logits(32_000);
logits.values.set([1, 2, 3]);
const all: Distribution = distribution(logits, params);
const ids: Uint32Array = all.tokens;
const explanation: Explanation = explain([1, 2], { top_k: 1 }, { listed: 3 });
const names: string[] = explanation.stages.map((stage) => stage.stage);
const progress: Progress = new StopMatcher({ stop: "END" }).push(1, "the E");
const shown: Uint8Array = progress.text;
if (progress.rewind) sampler.takeBack(progress.rewind);
const kind: string = new OnedrawError({ kind: "param", message: "wrong" }).kind;

const stories = await loadStories({ progress: ({ loaded, total }) => console.log(loaded / (total ?? 1)) });
for await (const event of stories.stream("Once", { seed: "7" })) {
  const { text, sampled }: StoryEvent = event;
  console.log(text, sampled?.token);
}
const written: Story[] = await stories.write("Once", { n: 2 }, { signal: AbortSignal.timeout(1000) });
stories.close();

export { misspelt, mode, token, seed, logprob, ids, names, shown, kind, written };
