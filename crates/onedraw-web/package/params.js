import { OnedrawError } from "./error.js";

/**
 * Token ids, as numbers or BigInts.
 *
 * @typedef {ArrayLike<number> | ArrayLike<bigint>} Ids
 */

/**
 * The parameters of a sequence, by the names that they have everywhere in onedraw. One that is missing or `undefined` has
 * its default; an unknown name is an error.
 *
 * @typedef {object} SamplingParams
 * @property {number} [temperature] divides the logits: higher is more random; 0 to 10^6; below 10^-5 the draw is
 *   greedy; default 1
 * @property {number} [dynatemp_range] lets the entropy move the temperature up and down by this much; 0 turns it off;
 *   default 0
 * @property {number} [dynatemp_exponent] the power of the entropy's share of ln(tokens left) that sets the place in
 *   that range; default 1
 * @property {number} [top_k] keeps exactly the k best tokens; 0 or -1 turns it off; default 0
 * @property {number} [top_p] keeps the shortest prefix whose mass reaches this share; 0 to 1; 1 turns it off; default
 *   1
 * @property {number} [min_p] keeps tokens at least this many times as likely as the best; 0 to 1; 0 turns it off;
 *   default 0
 * @property {number} [typical_p] keeps tokens whose surprise is nearest to the entropy, up to this share; above 0, to
 *   1; 1 turns it off; default 1
 * @property {number} [top_n_sigma] keeps logits within this many standard deviations of the best; 0 turns it off;
 *   default 0
 * @property {number} [epsilon_cutoff] keeps tokens with at least this probability, and the best; 0 to 1; 0 turns it
 *   off; default 0
 * @property {number} [eta_cutoff] keeps tokens with a probability of at least min(eta, sqrt(eta)·exp(-entropy)), and
 *   the best; 0 turns it off; default 0
 * @property {number} [top_a] keeps tokens with a probability of at least a times the best one's square; 0 to 1; 0
 *   turns it off; default 0
 * @property {number} [xtc_probability] how often XTC removes all top choices but the least likely; 0 to 1; 0 turns it
 *   off; default 0
 * @property {number} [xtc_threshold] the probability from which on XTC counts a token as a top choice; 0 to 1; default
 *   0.1
 * @property {Ids} [xtc_protected_token_ids] ids that XTC never removes, such as newline and EOS; default []
 * @property {0 | 1 | 2} [mirostat] steers the surprise of the text: version 1 or 2; 0 turns it off; default 0
 * @property {number} [mirostat_tau] the surprise that mirostat aims at, in bits; default 5
 * @property {number} [mirostat_eta] mirostat's learning rate: after each token, mu falls by eta times (its surprise -
 *   tau); default 0.1
 * @property {number | null} [mirostat_mu] mirostat's state mu, in bits; without it, twice tau
 * @property {number} [repetition_penalty] divides a positive logit and multiplies a negative one, once for each token
 *   seen; above 0; default 1
 * @property {number} [frequency_penalty] subtracted from a logit once for each time the token was seen in the output;
 *   default 0
 * @property {number} [presence_penalty] subtracted from a logit once if the token was seen in the output; default 0
 * @property {number} [penalty_window] the three penalties look at this many of the last tokens of prompt and output; 0
 *   means all; default 0
 * @property {"output" | "all"} [penalty_scope] what frequency and presence penalty count: `output`, or `all` for the
 *   prompt too; default "output"
 * @property {number} [dry_multiplier] the strength of DRY, which lowers a token that would continue a repetition; 0
 *   turns it off; default 0
 * @property {number} [dry_base] how fast DRY's penalty grows with the length of the repetition; at least 1; default
 *   1.75
 * @property {number} [dry_allowed_length] repetitions shorter than this cost nothing; default 2
 * @property {number} [dry_penalty_last_n] DRY looks at this many of the last tokens of prompt and output; 0 means all;
 *   default 0
 * @property {Ids[]} [dry_sequence_breakers] id sequences, of 1 to 20 ids each, across which DRY sees no repetition;
 *   default []
 * @property {number} [no_repeat_ngram_size] no sequence of this many tokens appears twice in prompt and output; 0
 *   turns it off; default 0
 * @property {number} [smoothing_factor] bends the logits around the best one; 0 turns it off; default 0
 * @property {number} [smoothing_curve] the share of the cubic term in the smoothing, from 1 (none) to 3; default 1
 * @property {{ [id: number]: number } | Map<number, number>} [logit_bias] an object {id: number}; the number is added
 *   to the logit of that token; default {}
 * @property {Ids | null} [allowed_token_ids] only these ids may be drawn
 * @property {Ids[]} [bad_words_ids] id sequences that must not appear in the output; default []
 * @property {string[]} [bad_words] words that must not appear in the output, as the tokenizer cuts them; default []
 * @property {number} [min_tokens] EOS and stop ids are banned until this many tokens are written; default 0
 * @property {string[]} [banned_strings] phrases that must not appear in the text; where one does, the text goes back
 *   to before it; default []
 * @property {number} [max_tokens] the most tokens of a text; default 16
 * @property {string | string[]} [stop] strings that end the text; one string or a list; default []
 * @property {Ids} [stop_token_ids] ids that end the text; default []
 * @property {boolean} [ignore_eos] goes on after EOS; default false
 * @property {boolean} [include_stop_str_in_output] leaves the stop string in the text; default false
 * @property {number | Ids} [eos_token_id] the ids that mean the end of a text; one id or a list; default []
 * @property {number | bigint | string | null} [seed] 0 to 2^64 - 1; without it or with -1, one is taken from the
 *   system and reported
 * @property {number} [n] how many texts, or draws of a row; 1 to 65,536; they share the seed and have different noise;
 *   default 1
 * @property {number | null} [logprobs] reports the drawn token and this many of the best; 0 reports the drawn token
 *   alone, -1 all
 * @property {"raw_logprobs" | "raw_logits" | "processed_logprobs" | "processed_logits"} [logprobs_mode] what reported
 *   numbers are: `raw_logprobs`, `raw_logits`, `processed_logprobs` or `processed_logits`; default "raw_logprobs"
 * @property {boolean} [probability] reports the probability with which the token was drawn, also where `logprobs_mode`
 *   is raw; default false
 * @property {"none" | "summary" | "ids"} [kept] what to report of the tokens that could have been drawn: `none`,
 *   `summary` or `ids`; default "none"
 * @property {number | null} [prompt_logprobs] like `logprobs`, for the tokens of the prompt
 * @property {Ids} [prompt_token_ids] the tokens of the prompt, which penalties, DRY and n-grams look at; default []
 * @property {Ids} [output_token_ids] the tokens written so far; their number is the position of the next draw; default
 *   []
 * @property {string | string[] | null} [order] the order of the stages: `vllm`, `huggingface`, `llama.cpp`, or a list
 *   of stages
 */

/**
 * Parameters as WebAssembly takes them: JSON, and beside it the seed, of which JSON's numbers in JavaScript would lose
 * digits.
 *
 * @param {SamplingParams} params
 * @returns {{ text: string, seed: string | undefined }}
 */
export function written(params) {
  if (typeof params !== "object" || params === null || Array.isArray(params)) throw wrong("params", "must be an object");
  const fields = [];
  for (const [name, value] of Object.entries(params)) {
    if (name === "seed" || value === undefined) continue;
    fields.push(`${JSON.stringify(name)}:${JSON.stringify(value, (_, part) => plain(name, part))}`);
  }
  return { text: `{${fields.join(",")}}`, seed: seedText(params.seed) };
}

/**
 * A value as JSON has it. What JSON would turn into `null` or leave out is an error.
 *
 * @param {string} field
 * @param {unknown} value
 * @returns {unknown}
 */
function plain(field, value) {
  if (typeof value === "number" && !Number.isFinite(value)) throw wrong(field, `must be a finite number, not ${value}`);
  if (typeof value === "bigint") {
    if (Number.isSafeInteger(Number(value))) return Number(value);
    throw wrong(field, `${value} is too large`);
  }
  if (value instanceof Map) return Object.fromEntries(value);
  if (ArrayBuffer.isView(value) && !(value instanceof DataView)) {
    return Array.from(/** @type {Uint32Array} */ (value));
  }
  if (typeof value === "function" || typeof value === "symbol" || value === undefined) {
    throw wrong(field, `must be a number, text, a list or an object, not ${String(value)}`);
  }
  return value;
}

/**
 * @param {SamplingParams["seed"]} seed
 * @returns {string | undefined}
 */
function seedText(seed) {
  if (seed === undefined || seed === null) return undefined;
  if (typeof seed === "number" && !Number.isSafeInteger(seed)) {
    throw wrong("seed", `${seed} is no safe integer; larger seeds are BigInts or decimal text`);
  }
  if (!["number", "bigint", "string"].includes(typeof seed)) {
    throw wrong("seed", "must be a whole number, a BigInt or decimal text");
  }
  return String(seed);
}

/**
 * @param {string} field
 * @param {string} what
 */
function wrong(field, what) {
  return new OnedrawError({ kind: "param", field, message: `${field}: ${what}` });
}
