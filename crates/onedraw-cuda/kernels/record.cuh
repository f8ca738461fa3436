// What the host and the kernels say to each other, laid out as src/record.rs has it.
#pragma once

#include "number.cuh"

// The truncations of a chain, in their order. Each keeps a run of the order of tokens.
enum StageKind : uint32_t { MIN_P = 1, TOP_K = 2, TOP_P = 3, TYPICAL = 4, EPSILON = 5, ETA = 6, TOP_A = 7, TOP_N_SIGMA = 8 };

struct Stage {
    uint32_t kind;
    // Of TOP_K: k.
    uint32_t k;
    // Of MIN_P: T * ln(min_p). Of EPSILON, ETA and TOP_A: the logarithm of the number. Of TOP_N_SIGMA: n.
    double number;
    // Of TOP_P and TYPICAL: max(1, round(p * 2^53)).
    uint64_t share;
    // 1 / T with the temperature in force, rounded once.
    double inverse;
    // log2(e) / T, rounded once to f32.
    float scale;
    uint32_t reserved;
};

constexpr uint32_t STAGES = 8;

// What changes single logits, in the order of the chain. Allowed tokens are a mask, and commute with all of these.
enum EditKind : uint32_t { BAD_WORDS = 1, MIN_TOKENS = 2, LOGIT_BIAS = 3, PENALTIES = 4, ALLOWED = 5 };

constexpr uint32_t EDITS = 12;
// Tokens that an edit may change, as many as a sequence lists.
constexpr uint32_t TABULATED = 1536;
// Of these, as many as a draw has a table for. Before compute capability 9.0 a block of threads may have no more than 99 KB of shared memory, and the largest logits of
// 262,144 tokens take 64 of them: there is none, and every edited row is drawn without one.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr uint32_t LINKED = 0;
#else
constexpr uint32_t LINKED = TABULATED;
#endif

enum LogprobsMode : uint32_t { RAW_LOGPROBS = 0, RAW_LOGITS = 1, PROCESSED_LOGPROBS = 2, PROCESSED_LOGITS = 3 };

// One sequence: its parameters, and where it stands. A draw moves it on by itself.
struct Sequence {
    // 32 tokens a word, lowest bit first, and four blocks of tokens at least: the tokens that the list allows, null: all; those that an edit may change, null: none.
    const uint32_t* allowed;
    uint32_t* touched;
    // The tokens that an edit may change as a list: `listed` of them, of which the first TABULATED are here.
    uint32_t* list;
    uint32_t listed, reserved;
    // The scale that the sums of blocks are taken at: that of TOP_P, where it is the first stage of a plain row; 0: none.
    float sum_scale;
    // Entries to report, the drawn token among them; 0: none.
    uint32_t logprobs;
    uint32_t logprobs_mode;
    // The number of output tokens.
    uint32_t position;
    uint64_t seed;
    uint32_t sequence, round;
    // 1 / T of the race, and log2(e) / T as f32.
    double inverse;
    float scale;
    // Whether the first token of what is left is taken.
    uint32_t is_greedy;
    uint32_t stages;
    // Whether the stages are MIN_P, TOP_K and TOP_P, each once at most, and nothing is reported of what they leave.
    uint32_t is_plain;
    // Of such: the places of MIN_P and TOP_P, STAGES where there is none; the first so many of the order that TOP_P sees, and that are left at last.
    uint32_t minimum, nucleus, k_before, k;
    Stage stage[STAGES];

    uint32_t edits;
    uint32_t edit[EDITS];
    float repetition, frequency, presence;
    // Whether frequency and presence count the prompt too.
    uint32_t counts_prompt;
    // The last tokens that penalties see; 0: all.
    uint32_t window;
    // Tokens of the prompt.
    uint32_t prompt;
    // Tokens that the ring holds: token number i of the text lies at i % ring. 0: nobody asks.
    uint32_t ring;
    uint32_t min_tokens, ends, biases, words;
    // For each token, how often the window has it: x in the prompt, y in the output. Null without penalties.
    uint2* counts;
    uint32_t* history;
    const uint32_t* end_ids;
    // Sorted.
    const uint32_t* bias_ids;
    const float* bias_values;
    // The places where words begin and where the last ends, words + 1 of them, then the tokens.
    const uint32_t* bad_words;
};

static_assert(sizeof(Stage) == 40 && sizeof(Sequence) == 568, "src/record.rs");

// One row of a step.
struct Task {
    // A grammar's mask; null: none.
    const uint32_t* mask;
    // Tokens of a draft that stand between the sequence's text and this row.
    const uint32_t* path;
    uint32_t slot, depth;
    // The sequence's, here too: to find it there would take a read more. Of `is_raw`: whether raw logprobs are asked for.
    const uint32_t *touched, *allowed, *list;
    float sum_scale;
    uint32_t is_raw;
};

// The last one is between functions alone.
enum Status : uint32_t { DRAWN = 0, NAN_LOGIT = 1, INFINITE_LOGIT = 2, NOTHING_LEFT = 3, UNFIT = 4 };

struct Result {
    // Of a bad logit its id; where nothing is left the edit that took the last token, or 0xffffffff.
    uint32_t token;
    uint32_t status;
};

// What is left of a row once its token is drawn, and the sums that its logprobs need.
struct Report {
    // The drawn token, the last one kept.
    Key drawn, last;
    uint64_t mass;
    double inverse, probability;
    // Logits at or above are out, and so are those below `lowest`.
    float above, lowest;
    float x_max, scale;
    uint32_t rank;
    // Entries, the drawn token first.
    uint32_t listed;
    // Parts that have been summed.
    uint32_t arrived;
    uint32_t reserved;
};

struct Entry {
    uint32_t token, rank;
    // The logprob, or in the logits modes the logit.
    double value;
};

// A draft that is judged. Row 0 of its rows stands after the text, row i + 1 after node i.
struct Trial {
    // Of the nodes: each one's token, and the row that it is a guess of.
    const uint32_t *tokens, *parents;
    // For each row the law that its guesses were drawn from, as a number a token, which the judge may change; null: they were given.
    double* const* drawn;
    // Memory for a number a row.
    double* shares;
    uint32_t slot;
    // Its first row in the step.
    uint32_t first;
    uint32_t nodes;
    // Whether the draft is a chain that is judged as a whole.
    uint32_t is_block;
    // Of such a chain: how many guesses hold.
    uint32_t length;
    uint32_t reserved;
};

static_assert(sizeof(Trial) == 56, "src/record.rs");

// All that a step reads and writes, the one argument of its kernels. Row i of the logits belongs to tasks[i].
struct Step {
    Sequence* sequences;
    const Task* tasks;
    const void* logits;
    // In logits.
    int64_t stride;
    uint32_t rows, vocabulary;
    // Blocks a row, rounded up to a multiple of four.
    uint32_t pitch;
    // Entries a row.
    uint32_t width;
    // Whether drawn tokens are appended to their sequences.
    uint32_t advances;
    // Blocks that a warp of the first pass takes together.
    uint32_t group;
    // The first blocks of threads of each row in the first pass throw the dice instead of reading.
    uint32_t dice;
    // Whether any row has TOP_P.
    uint32_t is_summed;
    // The largest logit of each block as masks leave it; -inf if nothing is alive.
    float* peaks;
    // For TOP_P: the mass of each block, in units of what a logit weighs that is the group's reference; a row of references begins at every pitch.
    float* sums;
    float* references;
    // What noise may add to each block: -ln of its smallest exponential, in f32. The last six bits are the lane that has the exponential.
    float* lucks;
    // The largest logit of each block before any mask, for raw logprobs.
    float* raw_tops;
    // For each row the largest of either, as `summit_of` has it; 0 between steps. A row begins at every SUMMIT_PITCH.
    uint32_t *summits, *raw_summits;
    // For each row that reports raw logprobs, its mass as it came; 0 between steps.
    uint64_t* weights;
    // For each row the lowest bad id, or 0xffffffff.
    uint32_t* bad;
    Result* results;
    Report* reports;
    Entry* entries;
    // What the rows' tokens are drawn from, a probability a token, for verification; null: tokens are drawn.
    double* laws;
    Trial* trials;
    // Whether `results` says which tokens are taken: they are only reported.
    uint32_t is_chosen;
    // Parts that raw rows are summed in, beside the draw; 0: no row is.
    uint32_t parts;
    // For each row, the tokens that its sequence lists and those of its draft: x the logit as it came, y what edits make of it. A row begins at every TABULATED.
    float2* edited;
    // Blocks of threads of each row in the first pass that find these, after those with the dice; 0: no row has edits.
    uint32_t editors;
    uint32_t reserved;
};

static_assert(sizeof(Task) == 56 && sizeof(Step) == 200, "src/record.rs");
