// Sizes and margins of a draw, and the small structs that its functions return.
#pragma once

#include "../record/record.cuh"

// Warps of the thread block, and half warps: a half warp reads a block, four tokens per lane.
constexpr uint32_t WARPS = DRAW_THREADS / 32;
constexpr uint32_t HALVES = 2 * WARPS;
static_assert(BLOCKS_ROUNDED_TO == BLOCKS_PER_VECTOR * DRAW_THREADS, "each thread has as many vectors of blocks");
static_assert(DRAW_BYTES_PER_BLOCK == 4 * sizeof(float), "four arrays of words: highest, gains, masses, work");
// Keys that the list of tokens holds: 16 KB. Its memory also holds the table's entries and the bits of blocks
// (asserted below), and 2,048 bins of a radix select.
constexpr uint32_t LIST_CAPACITY = 2048;
// A list of so many tokens is not sorted: one thread for each token compares it with all others.
constexpr uint32_t SHORT_LIST = DRAW_THREADS;
// Tokens that may be too close to the winner of a race for f32 to tell them apart. Hardly ever are there two;
// where there are more than fit, all tokens of the race are scored in f64.
constexpr uint32_t CANDIDATE_CAPACITY = 256;
// A score or a bound in f32 is within MARGIN of its value in f64. Only scores above -4 matter: the token of
// x_max has the score -ln E, which is at least -ln(22.9 + 22.9 / 64) = -3.15, and nothing below that can win.
// A score above -4 has (x - x_max) / T above -32, since -ln E is 27.1 at most (E is at least 2^-33 / 64). So
// all terms are below 32, where one f32 operation rounds by 2^-20 at most, and there are few of them; the
// gain is off by less than 2^-11 (rows/skyline.cuh), and the exponential of a token by 2^-14 of it. Together that
// is below 2^-10.
constexpr float MARGIN = 1.0f / 1024.0f;
// Sums of f32 powers are within 2^-15 of what they stand for: a power is off by less than 2^-17, most of it
// from rounding t, and fewer than 260 additions round by 2^-24 each. The rest of the margin is spare.
// Interval::around in crates/onedraw/src/numeric/mass.rs has the same.
constexpr float SUM_ERROR = 1.0f / 16384.0f;
// The table of edited tokens is chained by blocks: `heads` has the first entry of all blocks that are equal
// modulo EDIT_TABLE_HEADS, and a link has its token in the lower bits and the next entry above them. A hash
// table of tokens was slower: among 900 tokens in 2,048 slots there are runs of thirty, and a warp waits for
// its slowest lane (bench/results/2026-11-16-cuda.md, "Penalties with logprobs").
constexpr uint32_t EDIT_TABLE_HEADS = EDIT_TABLE_CAPACITY > 0 ? 2048 : 4;
constexpr uint32_t LINK_SHIFT = 20, LINK_TOKEN_MASK = (1u << LINK_SHIFT) - 1, END_OF_LINKS = 2047;
static_assert(MAX_BLOCKS * BLOCK <= LINK_TOKEN_MASK && EDIT_LIST_CAPACITY <= END_OF_LINKS, "a link is a word");
static_assert(EDIT_LIST_CAPACITY == EDITS_PER_THREAD * DRAW_THREADS, "each thread links so many");
static_assert(MAX_BLOCKS / 32 * sizeof(uint32_t) <= (LIST_CAPACITY - EDIT_LIST_CAPACITY) * sizeof(Key), "the bits of lost() fit behind the entries");
static_assert(CANDIDATE_CAPACITY <= DRAW_THREADS && sizeof(Sequence) / 8 <= DRAW_THREADS, "one thread for each");
// Distances below the best logit are counted in steps of a sixteenth of an octave ("depths"): the exponent
// and the upper four bits of the mantissa of x_max - x. They begin at 2^-8 and end, 16 octaves later, at 2^8:
// what is nearer has depth 0, what is farther the last.
constexpr uint32_t DEPTH_LOWEST = (127 - 8) << 4;
constexpr uint32_t DEPTHS = 256;
static_assert(DEPTHS <= DRAW_THREADS, "one thread for each");

// Dynamic shared memory.
extern __shared__ float memory[];

// A token with its score in f64.
struct Finalist {
    double score;
    uint32_t token;
    float logit;
};

// The least and the most that a mass can be.
struct Bounds {
    uint64_t least, most;
};

// How many tokens, and their mass.
struct Census {
    uint64_t count, mass;
};

// What rows may have. The less a form takes, the shorter its code is and the fewer registers it needs, and
// the more rows are drawn beside each other on a multiprocessor.
enum Rows {
    // No masks and no edits; a plain chain, and nothing is reported of what it leaves.
    BARE,
    // Masks and edits, of no more tokens than the table holds; the rest as BARE.
    EDITED,
    // The same with edits of any number of tokens, and without a table.
    CROWDED,
    // No masks and no edits; any chain of one segment, and anything is reported.
    STAGED,
    // Everything.
    ANY,
};
// Whether a form takes masks and edits, and whether it takes any chain and any report.
__device__ constexpr bool is_edited(Rows rows) { return rows == EDITED || rows == CROWDED || rows == ANY; }
__device__ constexpr bool is_staged(Rows rows) { return rows == STAGED || rows == ANY; }
