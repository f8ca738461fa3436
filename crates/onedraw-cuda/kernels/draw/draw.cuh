// What the thread block that draws a row has of it in shared memory.
//
// The naive draw of one row (crates/onedraw/src/reference/ is the definition):
//
//     for each token: logit[token] = what masks and edits make of it
//     kept = the tokens alive, sorted by (logit descending, id ascending)
//     for each truncation: kept = the part of kept that it keeps
//     if greedy: return the first of kept
//     for each token of kept: score[token] = (logit[token] - x_max) / T - ln(exponential of the token)
//     return the token with the largest score, the lower id of equals
//
// What the draw does differently, each with its reasons in the file that is named:
//
// 1. It starts from what the first pass knows of blocks (rows/skyline.cuh): the largest logit, the gain by noise,
//    the estimated mass. All of it lies in shared memory, and most questions are answered from there. The blocks
//    that could change an answer are read again (blocks.cuh).
// 2. Edits are computed for few tokens, and the numbers of their blocks are corrected (repair.cuh).
// 3. MIN_P, TOP_K and TOP_P are asked about the winner, or about few tokens, instead of being made (truncate.cuh,
//    few.cuh, nucleus.cuh). Other chains, and rows that are reported after truncation, get their last kept token
//    searched (stages/chain.cuh).
// 4. The race computes f32 scores of the blocks that could win, and f64 scores only of tokens that f32 cannot
//    tell apart (race.cuh).
// 5. The thread block begins before the first pass has ended, prepares what does not need it, and then waits
//    (row.cuh, which has the way of a row through all of this).
//
// Why this is exact: f32 numbers decide only which blocks and tokens are looked at, always with a margin that
// covers their error; every comparison that could change the answer is made with the numbers of the
// definition, which are integers or f64 numbers computed in its order.
//
// **Functions of a draw** are free functions that take it as their first argument, each in the file of its idea.
// All threads of the thread block call them together, and get the same result, unless a comment says otherwise.
//
// **What lies where in shared memory.** The members of `Draw` are static shared memory. Dynamic shared memory
// (`memory`) is four arrays with one word for each of `padded_blocks` blocks: `highest()`, `gains()`,
// `masses()` and `work()`. Two places are used for several things, one after the other:
//
// | memory | from | until | holds |
// |---|---|---|---|
// | work() | fetch in `draw_row` | `total_mass` (or the first list) | references of the row's groups |
// | | `change_block` | `repair` | the `others` blocks that lost their best token |
// | | `collect*` | the next list | the `count` listed blocks |
// | | `race` begins | `race` ends | the bounds of all blocks, as f32 |
// | keys | fetch in `draw_row` | `change_listed` | the table's entries from the first pass (`entries()`) |
// | | `prepare_row` | `repair` | behind the entries: one bit per block that lost its best token (`lost()`) |
// | | `change_touched` | its end | tokens that an edit may change |
// | | `gather`, `append_key` | the next list | listed keys |
// | | `race_few` | its end | upper half: weights of the listed tokens, then the tokens that are close |
// | | `race` begins | `race` ends | blocks that are opened next |
// | | `crossed` | its end | LIST_CAPACITY sums |
// | | `cut_mirostat` | its end | upper half: terms of its sums |
// | | `write_law` | its end | f64 sums of the threads |
//
// A row goes through this code once, so its instructions are read from memory rather than from a cache: the
// code is kept short. What functions need of the row lies in shared memory instead of in arguments, few
// functions are inlined, and loops are not unrolled (`#pragma unroll 1`) unless their reads should be under
// way together.
#pragma once

#include "../edit/beheaded.cuh"
#include "../edit/bend.cuh"
#include "threads.cuh"

template <typename T, Rows ROWS>
struct Draw : Threads {
    // For functions of a draw: what its rows may have, and the type of their logits.
    static constexpr Rows rows = ROWS;
    typedef T Logit;

    // Copies of the arguments and of the sequence: each read of device memory would take half a microsecond.
    Step step_copy;
    // The number of the row.
    uint32_t row;
    Sequence sequence;
    Place place;
    uint32_t slot;
    Adjustment adjustment;
    const T* logits;
    uint32_t vocabulary;
    // The number of blocks, rounded up to BLOCKS_ROUNDED_TO; those past the vocabulary hold nothing.
    uint32_t padded_blocks;
    // The largest logit as masks leave the row, and the largest of what is left after edits and truncations.
    float summit, x_max;
    // How far below the best logit the nucleus can reach; below 0 as long as it is not known.
    float nucleus_reach;
    // Of a row that is told of: how long the list is from which the token was drawn; 0: it was drawn without one.
    uint32_t told_list;
    // What is left lies below `above` and not below `lowest`.
    float above, lowest;
    // The row after its first segment (stages/narrow.cuh); null before that.
    float* desk;
    // The operation that is taken, and those that follow it.
    Stage operation;
    const Stage *next_operation, *end_of_chain;
    // The mask of a later segment.
    const uint32_t* late_mask;
    // XTC: what comes before this is removed, unless it is protected. 0: nothing is.
    Key head;
    // The largest logit before smoothing, and whether logits are bent from here on.
    float bend_top;
    bool is_smoothed;
    // The temperature in force, where the entropy sets it: T and 1 / T.
    double heat, heat_inverse;
    // Where mirostat stands after the draw.
    double next_mu;
    // The sums of the whole row, if these were taken; a mass of 0 otherwise.
    Gauge whole;
    // Whether all that is reported is known.
    bool is_summed_here;
    // Whether the row has no masks and no edits.
    bool is_bare;
    // The last token that is kept, and the drawn token.
    Key last, drawn;
    // Results that one thread found for all.
    Key found_key;
    uint64_t found_number;
    // In a race: the f32 score of some token less its margin, as `order_of` codes it. What is lower cannot
    // win.
    int lead;
    // The race is among the tokens before this one.
    Key before;
    // Lengths of lists that are being written: blocks or keys, and a second list beside them.
    uint32_t count, others;
    // Bounds of the mass that TOP_P sees; {0, 0} as long as it is not known.
    Bounds total;
    // The lowest logit that MIN_P leaves, and the same where MIN_P stands before TOP_P; -inf otherwise.
    float bottom, bottom_before;
    // Where the first pass wrote the references of the row's groups; blocks of a row in device memory; blocks
    // of a group.
    const float* references;
    uint32_t pitch, group;
    // What blocks add up to at each depth: 0 at first.
    alignas(16) uint32_t depth_histogram[DEPTHS];
    Key candidates[CANDIDATE_CAPACITY];
    float rough_scores[CANDIDATE_CAPACITY];
    alignas(16) Key keys[LIST_CAPACITY];
    // Scores of listed tokens: no more than half the list is raced.
    float listed_scores[LIST_CAPACITY / 2];
    // The table of the tokens that edits may change, and what edits make of them.
    alignas(16) uint32_t heads[ROWS == EDITED || ROWS == ANY ? EDIT_TABLE_HEADS : 1];
    uint32_t links[(ROWS == EDITED || ROWS == ANY) && EDIT_TABLE_CAPACITY > 0 ? EDIT_TABLE_CAPACITY : 1];
    float edited_logits[(ROWS == EDITED || ROWS == ANY) && EDIT_TABLE_CAPACITY > 0 ? EDIT_TABLE_CAPACITY : 1];
    // Without a table: one bit for each block that has such a token.
    uint32_t edited_blocks[ROWS == CROWDED || ROWS == ANY ? MAX_BLOCKS / 32 : 1];

    // ---- its arrays in dynamic shared memory ----

    // For each block: its largest logit; what noise adds to it at most; its mass in f32, in units of the best
    // token's weight; and one word of working memory.
    __device__ __forceinline__ float* highest() const { return memory; }
    __device__ __forceinline__ float* gains() const { return memory + padded_blocks; }
    __device__ __forceinline__ float* masses() const { return memory + 2 * padded_blocks; }
    __device__ __forceinline__ uint32_t* work() const { return reinterpret_cast<uint32_t*>(memory + 3 * padded_blocks); }

    // ---- single tokens ----

    // A logit as masks, edits and smoothing leave it; -inf for a token past the vocabulary.
    __device__ __forceinline__ float at(uint32_t token) const {
        if (token >= vocabulary) return negative_infinity();
        if (ROWS == ANY && desk != nullptr) return desk[token];
        const float x = one(logits + token);
        if (ROWS == BARE || is_bare) return x;
        if (ROWS == STAGED) return smoothed(x);
        if (!is_tabulated()) return smoothed(Adjustment::adjusted(place, adjustment.touched, token, x));
        return smoothed(place.allows(token) ? tabulated(token, x) : negative_infinity());
    }
    // What smoothing makes of a logit, if it is on (stages/smooth.cuh).
    __device__ __forceinline__ float smoothed(float x) const { return is_staged(ROWS) && is_smoothed ? bend_of(sequence).of(x, bend_top) : x; }

    // Whether a token is left: its logit is within `lowest` and `above`, and XTC has not removed it.
    __device__ __forceinline__ bool passes(float x, uint32_t token) const { return x >= lowest && x < above && (!is_staged(ROWS) || head == 0 || !is_removed(sequence, head, x, token)); }

    // MIN_P: the lowest logit that is kept.
    __device__ __forceinline__ float lowest_of(double threshold) const { return lowest_within(double(x_max), threshold); }

    __device__ __forceinline__ Noise noise() const { return {sequence.seed, sequence.position + place.depth, sequence.sequence, sequence.round}; }

    // ---- the table of edited tokens: repair.cuh ----

    // Whether the table has room for all tokens that an edit may change, and whether this form has one.
    __device__ __forceinline__ bool fits() const { return sequence.edit_list_length + place.depth <= EDIT_TABLE_CAPACITY; }
    __device__ __forceinline__ bool is_tabulated() const { return ROWS == EDITED || (ROWS == ANY && fits()); }
    // The entries of the table as the first pass wrote them: x the unmodified logit, y the edited one. Until
    // `change_listed`.
    __device__ __forceinline__ float2* entries() { return reinterpret_cast<float2*>(keys); }
    // One bit for each block that lost its best token, until `repair`. These blocks are also listed, `others`
    // of them.
    __device__ __forceinline__ uint32_t* lost() { return reinterpret_cast<uint32_t*>(keys + EDIT_LIST_CAPACITY); }
    // Calls `each(other, entry)` for the entries of the table that may be of the token's block.
    template <typename Each>
    __device__ __forceinline__ void over_linked(uint32_t token, Each each) const {
#pragma unroll 1
        for (uint32_t entry = heads[token / BLOCK % EDIT_TABLE_HEADS]; entry != END_OF_LINKS;) {
            const uint32_t link = links[entry];
            each(link & LINK_TOKEN_MASK, entry);
            entry = link >> LINK_SHIFT;
        }
    }
    // What edits make of a token; x if it is not in the table.
    __device__ __forceinline__ float tabulated(uint32_t token, float x) const {
        over_linked(token, [&](uint32_t other, uint32_t entry) { x = other == token ? edited_logits[entry] : x; });
        return x;
    }

    // ---- what the row is like ----

    // Whether the row has a mask, early or late: then it may have a chain of its own.
    __device__ __forceinline__ bool has_mask() const { return place.mask != nullptr || late_mask != nullptr; }
    // Whether the row begins at a multiple of sixteen bytes.
    __device__ __forceinline__ bool is_aligned() const { return reinterpret_cast<uint64_t>(logits) % 16 == 0; }
    // Whether no operation has removed anything yet.
    __device__ __forceinline__ bool is_whole() const { return desk == nullptr && head == 0 && last == key_end() && above == positive_infinity() && lowest == negative_infinity(); }
    // Whether logprobs of the unmodified row are asked for: another kernel writes them (report/raw_logprobs.cuh).
    __device__ __forceinline__ bool is_raw() const { return sequence.logprobs > 0 && sequence.logprobs_mode <= RAW_LOGITS; }
    // The stage of TOP_P, or null.
    __device__ __forceinline__ const Stage* nucleus() const { return sequence.top_p_place < MAX_STAGES ? &sequence.stage[sequence.top_p_place] : nullptr; }
    // Whether the first pass has no bounds of the mass that TOP_P sees, because it does not stand first or
    // the estimates are lost: its total must be summed exactly.
    __device__ __forceinline__ bool is_unbounded() const { return sequence.top_p_place != 0 || total.most == 0; }

    // ---- one thread writes for all ----

    __device__ __forceinline__ void set_total(Bounds value) {
        __syncthreads();
        if (threadIdx.x == 0) total = value;
        __syncthreads();
    }
    __device__ __forceinline__ void set_lowest(float value) {
        __syncthreads();
        if (threadIdx.x == 0) lowest = value;
        __syncthreads();
    }
};
