// The structs that the host fills and the kernels read, and those that come back. Their layout is asserted
// against shared.def on both sides (layout.cuh, src/record/). Addresses are device memory.
#pragma once

#include "../number/number.cuh"

// An operation of the chain: a truncation, or a temperature that the entropy sets.
struct Stage {
    // A `StageKind`.
    uint32_t kind;
    // TOP_K: k. XTC: which coin. MIROSTAT: the version. NARROW: the first edit of the segment.
    uint32_t k;
    // MIN_P: T * ln(min_p). EPSILON, ETA, TOP_A and XTC: the logarithm of the parameter. TOP_N_SIGMA: n. HEAT: the lowest
    // temperature. SMOOTH: the factor.
    double number;
    // TOP_P and TYPICAL: max(1, round(p * 2^53)). The bits of a double: XTC the probability, HEAT the highest temperature,
    // MIN_P ln(min_p), SMOOTH the quadratic share. NARROW: the end of the segment's edits.
    uint64_t share;
    // 1 / T with the temperature in force at this stage, rounded once. HEAT: the exponent. SMOOTH: the cubic share.
    double inverse;
    // log2(e) / T, rounded once to f32.
    float scale;
    uint32_t reserved;
};

// Tokens that the table of edited tokens in a draw's shared memory holds. Before compute capability 9.0 a
// thread block may have no more than 99 KB of shared memory, and the numbers of the blocks of 262,144 tokens
// take 64 KB of them: there is no table, and every edited row is drawn without one.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr uint32_t EDIT_TABLE_CAPACITY = 0;
#else
constexpr uint32_t EDIT_TABLE_CAPACITY = EDIT_LIST_CAPACITY;
#endif

// One sequence: its parameters, and where its text stands. A draw moves it on by itself.
struct Sequence {
    // Bitmaps, 32 tokens per word, lowest bit first, padded to whole vectors of blocks: the tokens that
    // `allowed_token_ids` lists (null: all are allowed), and the tokens whose logits an edit may change
    // (null: none).
    const uint32_t* allowed;
    uint32_t* touched;
    // The tokens of `touched` as a list. `edit_list_length` counts all of them; the first EDIT_LIST_CAPACITY
    // are in the list.
    uint32_t* edit_list;
    uint32_t edit_list_length;
    // Whether anything is reported of what is left: the probability with which the token is drawn, logprobs, or the
    // kept tokens.
    uint32_t is_told;
    // The scale of the sums of blocks that the first pass takes: that of TOP_P, where it is the first stage.
    // 0: no sums are taken.
    float sum_scale;
    // Entries to report, the drawn token among them; 0: none.
    uint32_t logprobs;
    // A `LogprobsMode`.
    uint32_t logprobs_mode;
    // The number of output tokens.
    uint32_t position;
    uint64_t seed;
    // Which of the `n` sequences of the parameters this is, and how often its text was taken back: both are
    // counted by the noise.
    uint32_t sequence, round;
    // 1 / T of the race, and log2(e) / T as f32.
    double inverse;
    float scale;
    // Whether the first token of what is left is taken, instead of a draw.
    uint32_t is_greedy;
    // Whether the stages are MIN_P, TOP_K and TOP_P, each once at most. How these stand to each other is worked out on
    // the host, once per sequence.
    uint32_t is_plain;
    // Of a plain chain: the places of MIN_P and TOP_P in `stage`, MAX_STAGES where there is none; how many
    // tokens of the order TOP_P sees at most, and how many are left at last (0xffffffff: all, UNLIMITED).
    uint32_t min_p_place, top_p_place, k_before, k;
    // Whether the chain has a HEAT: then the temperatures of what comes after it are known when it is drawn.
    uint32_t is_dynamic;
    // The operations of a plain chain.
    Stage stage[MAX_STAGES];
    // The operations of any chain: of rows without a mask and with one, which differ where a stage that applies it stands
    // after an operation.
    const Stage* chains[2];
    uint32_t chain_lengths[2];

    // Mirostat: where it stands, what it aims at, and how fast it learns. (Its version is in `mirostat`; 0: it is off.)
    double mu, tau, eta;
    // The curve of smoothing, if `is_bent`.
    double bend_factor, bend_quadratic, bend_cubic;
    uint32_t is_bent, mirostat;
    // The tokens that `allowed_token_ids` lists, where the stage stands after an operation: `allowed` is null then.
    const uint32_t* late_allowed;
    // The tokens that XTC never removes, sorted.
    const uint32_t* protected_ids;
    uint32_t protected_count;

    // The number of edits of the first segment, and the first NEAR_EDITS of all segments, each an `EditKind`. Hardly
    // any chain has more; the others are `far_edits`.
    uint32_t edits;
    uint8_t near_edits[NEAR_EDITS];
    float repetition, frequency, presence;
    // Whether frequency and presence penalties count the prompt too.
    uint32_t counts_prompt;
    // How many of the last tokens penalties see; 0: all.
    uint32_t window;
    // The number of tokens of the prompt.
    uint32_t prompt;
    // Tokens that `history` has room for; 0: no edit reads the text, and nothing of it is undone.
    uint32_t room;
    uint32_t min_tokens;
    // Lengths of the lists below: EOS and stop ids, biases, bad words.
    uint32_t ends, biases, words;
    // Whether the chain has several segments: rows are written to the desk.
    uint32_t needs_desk;
    // DRY. `breakers`: first `breaker_count` + 1 numbers, where each breaker begins and where the last ends; then the tokens of
    // all. `dry_window`: how many of the last tokens are looked at; 0: all.
    double dry_multiplier, dry_base;
    const uint32_t* breakers;
    uint32_t breaker_count, dry_allowed, dry_window;
    // The length of n-grams that must not come twice; 0: any may.
    uint32_t ngram;
    // How many numbers `mus` has room for; 0: nothing of mirostat is undone.
    uint32_t mu_room;
    // `scale` and `inverse` of rows with a mask, whose chain may end with another temperature.
    float late_scale;
    double late_inverse;
    // A `KeptMode`.
    uint32_t kept;
    // A `GaugeKind`: what is summed of the whole row before it is drawn, and at which scale.
    uint32_t gauge;
    float gauge_scale;
    // For the host: whether the probability is what is told, or a part of it.
    uint32_t tells_probability;
    // Whether the chain keeps a prefix of the order: bit 0 of rows without a mask, bit 1 of rows with one.
    uint32_t prefixes;
    // The tokens of the text: the prompt, then the output. The next draw may be that of another position.
    uint32_t length;
    // For each token how often the window has it: x in the prompt, y in the output. Null without penalties: only these
    // may change every token of the text.
    uint2* counts;
    // The text. The host gives it more room before it is needed (text/revise.cuh).
    uint32_t* history;
    const uint32_t* end_ids;
    // Sorted.
    const uint32_t* bias_ids;
    const float* bias_values;
    // First `words` + 1 numbers: where each word begins, and where the last ends; then the tokens of all
    // words.
    const uint32_t* bad_words;
    // The `ban_count` tokens that must not be drawn after `ban_place` tokens of the text.
    const uint32_t* bans;
    // Where mirostat stood after each number of output tokens.
    double* mus;
    uint32_t ban_count, ban_place;
    // The edits after the first NEAR_EDITS; null: there are none.
    const uint8_t* far_edits;

    // Edit number i of all segments.
    __device__ __forceinline__ uint32_t edit(uint32_t i) const { return i < NEAR_EDITS ? near_edits[i] : far_edits[i - NEAR_EDITS]; }
};

// One row of a step.
struct Task {
    // A grammar's mask; null: none. `late_mask`: where the stage stands after an operation.
    const uint32_t *mask, *late_mask;
    // The `depth` tokens of a draft that stand between the sequence's text and this row.
    const uint32_t* path;
    // The place of the sequence in the array of sequences.
    uint32_t slot, depth;
    // DRY and n-grams: what the text before the row repeats (text/repeat.cuh). Null: nobody asks.
    uint32_t* repeats;
    // Copies of the sequence's fields: to read them there would be a second read after this one.
    const uint32_t *touched, *allowed, *edit_list;
    float sum_scale;
    // Whether logprobs of the unmodified row are asked for.
    uint32_t is_raw;
    float gauge_scale;
    uint32_t gauge;
    // Rows after guesses: the first that follows this one, and the next that follows the same row as this
    // one. 0: there is none.
    uint32_t first_child, next_sibling;
};

struct Outcome {
    // DRAWN: the token. A bad logit: its id. NOTHING_LEFT: the `EditKind` that removed the last token, or NO_EDIT.
    uint32_t token;
    // A `Status`.
    uint32_t status;
};

// What is left of a row once its token is drawn, and the sums that its logprobs need.
struct Report {
    // The drawn token, where the chain cuts the order, and the first token after those that XTC removed (0: none).
    Key drawn, last, head;
    // The last token that is kept; 0 where the kept tokens are no prefix of the order.
    Key kept_last;
    uint64_t mass;
    // Of the unmodified row, if its logprobs are reported: its mass, and its largest logit (below).
    uint64_t raw_mass;
    // `mu`: where mirostat stands after the draw. Of a row after a guess, until it is drawn: where it stands
    // after that guess.
    double inverse, probability, mu;
    // Logits at or above `above` are removed, and so are those below `lowest`.
    float above, lowest;
    float x_max, scale;
    uint32_t rank;
    // Entries that are written, the drawn token's first.
    uint32_t entry_count;
    // Thread blocks that have added their sums.
    uint32_t arrived;
    // The largest logit before smoothing.
    float bend_top;
    // Whether the row is that of the desk, where edits and smoothing are made already.
    uint32_t is_on_desk;
    // How many tokens are kept.
    uint32_t kept_count;
    float raw_top;
    uint32_t reserved;
};

// Sums over a whole row as masks and edits leave it: the weights of its tokens, their surprises, and how many are alive.
struct Gauge {
    uint64_t mass, surprises;
    uint32_t tokens;
    // The lowest logit alive, as its place in the order (number/number.cuh); 0: nobody looked.
    uint32_t lowest;
};

struct Entry {
    uint32_t token, rank;
    // The logprob, or in the logits modes the logit.
    double value;
};

// A draft that is judged by laws (distributions). Row 0 of its rows stands after the text, row i + 1 after
// node i.
struct Trial {
    // For each node its token, and the row that it is a guess of.
    const uint32_t *tokens, *parents;
    // For each row the law that its guesses were drawn from, one probability per token, which the judge may
    // change; null: the guesses were given, not drawn.
    double* const* drawn;
    // Memory for one number per row.
    double* shares;
    // IF_TYPICAL: its settings.
    double threshold, alpha;
    uint32_t slot;
    // The draft's first row in the step.
    uint32_t first;
    uint32_t nodes;
    // A `Rule`. AS_A_BLOCK: the draft is a chain.
    uint32_t rule;
    // Written by all rules but BY_REJECTION: how many guesses hold.
    uint32_t length;
    uint32_t reserved;
};

// All that a step reads and writes: the one argument of its kernels. The host calls it `StepArguments`; here
// it keeps its name, because symbols of the kept image contain it. Row i of the logits belongs to tasks[i].
struct Step {
    Sequence* sequences;
    const Task* tasks;
    const void* logits;
    // From one row to the next, in logits.
    int64_t stride;
    uint32_t rows, vocabulary;
    // The blocks of a row, rounded up to a multiple of BLOCKS_PER_VECTOR: where rows begin in the arrays
    // below.
    uint32_t pitch;
    // Entries of a row: where rows begin in `entries`.
    uint32_t width;
    // Whether drawn tokens are appended to their sequences.
    uint32_t advances;
    // Blocks that a warp of the first pass takes together: they share a reference. A power of two.
    uint32_t group;
    // Thread blocks of the first pass, for each row, that make noise instead of reading: the first ones.
    uint32_t noise_makers;
    // Whether any row has TOP_P, so that the first pass takes sums.
    uint32_t is_summed;
    // The largest logit of each block as masks leave it; -inf if no token is alive.
    float* peaks;
    // For TOP_P: an estimate of the mass of each block, in units of what a logit weighs that is the reference
    // of its group; and the references, one per group. Rows begin at multiples of `pitch` in both.
    float* sums;
    float* references;
    // What noise adds at most to a score in each block: -ln of the block's smallest exponential, in f32. The
    // last six bits are replaced by the lane that has this exponential.
    float* gains;
    // The largest logit of each block before any mask, for raw logprobs of rows with masks.
    float* raw_peaks;
    // For each row the largest of its peaks and of its raw peaks, as `summit_of` codes it; 0 between steps.
    // Rows begin at multiples of SUMMIT_PITCH.
    uint32_t *summits, *raw_summits;
    // For each row that reports raw logprobs, the mass of the unmodified row; 0 between steps.
    uint64_t* raw_masses;
    // For each row the lowest id of a NaN or +inf; 0xffffffff between steps and for sound rows.
    uint32_t* bad_tokens;
    Outcome* results;
    Report* reports;
    Entry* entries;
    // For verification: memory for the distribution of each row, one probability per token. Null: tokens are
    // drawn.
    double* laws;
    Trial* trials;
    // Whether `results` already says which tokens are taken: they are only reported. A row with NO_TOKEN
    // there is drawn.
    uint32_t is_chosen;
    // Whether unmodified rows are summed beside the draw.
    uint32_t weighs;
    // For each row, for the tokens of its sequence's list and then those of its draft: x the unmodified
    // logit, y what edits make of it. Rows begin at multiples of EDIT_LIST_CAPACITY.
    float2* edited;
    // For each row memory for its logits after the first segment: rows begin at multiples of BLOCK * `pitch`. Null: no chain
    // has several segments.
    float* desks;
    // For each row its gauge; 0 between steps.
    Gauge* gauges;
    // For each row one bit for each token that is kept: rows begin at multiples of BLOCK / 32 * `pitch`. Null: nobody asks.
    uint32_t* kept_bits;
    // Two times BLOCK * `pitch` keys for each row, for rows that report more than MAX_LISTED logprobs. Null: none does.
    Key* sorting;
    // Thread blocks of the first pass, for each row, that compute these: they come after the noise makers. 0:
    // no row has edits.
    uint32_t editors;
    // 0: all rows are drawn. Otherwise only those of one level, counted from 1, in one launch of several
    // (stages/mirostat.cuh).
    uint32_t level;
};

// Marks of nothing, each in its own place. No id, place or count is as large.
constexpr uint32_t NO_TOKEN = 0xffffffffu, NO_EDIT = 0xffffffffu, NOT_LISTED = 0xffffffffu, NO_LINK = 0xffffffffu;
// Of k: no stage limits how many tokens are left.
constexpr uint32_t UNLIMITED = 0xffffffffu;
