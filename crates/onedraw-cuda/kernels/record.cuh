// The structs that the host fills and the kernels read, and those that come back. Their layout is asserted
// against shared.def on both sides (layout.cuh, src/record/). Addresses are device memory.
#pragma once

#include "number.cuh"

// A truncation of the chain.
struct Stage {
    // A `StageKind`.
    uint32_t kind;
    // TOP_K: k.
    uint32_t k;
    // MIN_P: T * ln(min_p). EPSILON, ETA and TOP_A: the logarithm of the parameter. TOP_N_SIGMA: n.
    double number;
    // TOP_P and TYPICAL: max(1, round(p * 2^53)).
    uint64_t share;
    // 1 / T with the temperature in force at this stage, rounded once.
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
    // Whether the probability with which the token is drawn is reported, alone or with logprobs of what is
    // left.
    uint32_t tells_probability;
    // The scale of the sums of blocks that the first pass takes: that of TOP_P, where it is the first stage
    // of a plain row. 0: no sums are taken.
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
    uint32_t stages;
    // Whether the stages are MIN_P, TOP_K and TOP_P, each once at most, and nothing is reported of what they
    // leave. How these stand to each other is worked out on the host, once per sequence.
    uint32_t is_plain;
    // Of a plain chain: the places of MIN_P and TOP_P in `stage`, MAX_STAGES where there is none; how many
    // tokens of the order TOP_P sees at most, and how many are left at last (0xffffffff: all, UNLIMITED).
    uint32_t min_p_place, top_p_place, k_before, k;
    Stage stage[MAX_STAGES];

    // The edits of the chain, each an `EditKind`.
    uint32_t edits;
    uint32_t edit[MAX_EDITS];
    float repetition, frequency, presence;
    // Whether frequency and presence penalties count the prompt too.
    uint32_t counts_prompt;
    // How many of the last tokens penalties see; 0: all.
    uint32_t window;
    // The number of tokens of the prompt.
    uint32_t prompt;
    // Tokens that `history` holds: token number i of the text lies at i % ring. 0: no edit needs the last
    // tokens.
    uint32_t ring;
    uint32_t min_tokens;
    // Lengths of the lists below: EOS and stop ids, biases, bad words.
    uint32_t ends, biases, words;
    // For each token how often the window has it: x in the prompt, y in the output. Null without penalties.
    uint2* counts;
    uint32_t* history;
    const uint32_t* end_ids;
    // Sorted.
    const uint32_t* bias_ids;
    const float* bias_values;
    // First `words` + 1 numbers: where each word begins, and where the last ends; then the tokens of all
    // words.
    const uint32_t* bad_words;
};

// One row of a step.
struct Task {
    // A grammar's mask; null: none.
    const uint32_t* mask;
    // The `depth` tokens of a draft that stand between the sequence's text and this row.
    const uint32_t* path;
    // The place of the sequence in the array of sequences.
    uint32_t slot, depth;
    // Copies of the sequence's fields: to read them there would be a second read after this one.
    const uint32_t *touched, *allowed, *edit_list;
    float sum_scale;
    // Whether logprobs of the unmodified row are asked for.
    uint32_t is_raw;
};

struct Outcome {
    // DRAWN: the token. A bad logit: its id. NOTHING_LEFT: the edit that removed the last token, or NO_EDIT.
    uint32_t token;
    // A `Status`.
    uint32_t status;
};

// What is left of a row once its token is drawn, and the sums that its logprobs need.
struct Report {
    // The drawn token, and the last token that the chain keeps.
    Key drawn, last;
    uint64_t mass;
    double inverse, probability;
    // Logits at or above `above` are removed, and so are those below `lowest`.
    float above, lowest;
    float x_max, scale;
    uint32_t rank;
    // Entries that are written, the drawn token's first.
    uint32_t entry_count;
    // Thread blocks that have added their sums.
    uint32_t arrived;
    uint32_t reserved;
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
    uint32_t slot;
    // The draft's first row in the step.
    uint32_t first;
    uint32_t nodes;
    // Whether the draft is a chain that is judged as a whole.
    uint32_t is_block;
    // Written for such a chain: how many guesses hold.
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
    // Whether `results` already says which tokens are taken: they are only reported.
    uint32_t is_chosen;
    // Thread blocks that sum each unmodified row beside the draw; 0: no row needs it.
    uint32_t weigh_parts;
    // For each row, for the tokens of its sequence's list and then those of its draft: x the unmodified
    // logit, y what edits make of it. Rows begin at multiples of EDIT_LIST_CAPACITY.
    float2* edited;
    // Thread blocks of the first pass, for each row, that compute these: they come after the noise makers. 0:
    // no row has edits.
    uint32_t editors;
    uint32_t reserved;
};

// Marks of nothing, each in its own place. No id, place or count is as large.
constexpr uint32_t NO_TOKEN = 0xffffffffu, NO_EDIT = 0xffffffffu, NOT_LISTED = 0xffffffffu, NO_LINK = 0xffffffffu;
// Of k: no stage limits how many tokens are left.
constexpr uint32_t UNLIMITED = 0xffffffffu;
