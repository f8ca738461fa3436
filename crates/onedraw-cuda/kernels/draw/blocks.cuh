// Listing blocks, and reading the tokens of those that are listed.
//
// The naive loop:
//
//     for each token of the row: if it matters, do something with its logit
//
// What this code does differently:
//
// 1. Blocks that cannot have a token that matters are not read: a question about logits of at least `reach`
//    lists the blocks whose largest logit reaches it, from shared memory (`collect`).
// 2. Threads take blocks of the list in turn, either one warp per block and two tokens per lane (`over`), or
//    half a warp per block and four tokens per lane, several blocks at once (`over_fours`, `sweep`). Reads are
//    issued before the blocks before them are done with.
//    A question about most of a flat row reads it from its beginning to its end, without a list (`over_row`).
// 3. Masks and edits are applied when a token is read.
//
// Why this is exact: the largest logits of blocks are exact (rows/skyline.cuh, repair.cuh), so a block that is
// not listed has no token of at least `reach` (1). What callers do with tokens does not depend on their order:
// they add integers, take maxima, or list keys (2). Edits depend on the token alone (3, edit/edit.cuh).
#pragma once

#include "../rows/sum.cuh"
#include "draw.cuh"

// ---- listing ----

// Lists the blocks for which `flags(quad)` has a bit set, one of four bits for each block of a vector;
// returns how many. `others` becomes 0. Few blocks are listed in most cases, so that a thread which has
// some takes their places in the list by itself, with one atomic.
template <typename Draw, typename Flags>
__device__ __forceinline__ uint32_t collect_fours(Draw& draw, Flags flags) {
    uint32_t* const listed = draw.work();
    __syncthreads();
    if (threadIdx.x == 0) draw.count = draw.others = 0;
    __syncthreads();
#pragma unroll 1
    for (uint32_t quad = threadIdx.x; quad < draw.padded_blocks / 4; quad += DRAW_THREADS) {
        const uint32_t own = flags(quad);
        if (own == 0) continue;
        uint32_t place = atomicAdd(&draw.count, __popc(own));
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            if (own >> i & 1) listed[place++] = 4 * quad + i;
        }
    }
    __syncthreads();
    return draw.count;
}

// Lists the blocks for whose number in an array `reaches` is true.
template <typename Draw, typename Reaches>
__device__ __forceinline__ uint32_t collect_where(Draw& draw, const float* numbers, Reaches reaches) {
    return collect_fours(draw, [=](uint32_t quad) {
        const float4 four = reinterpret_cast<const float4*>(numbers)[quad];
        return uint32_t(reaches(four.x)) | uint32_t(reaches(four.y)) << 1 | uint32_t(reaches(four.z)) << 2 | uint32_t(reaches(four.w)) << 3;
    });
}

// Lists the blocks with a token alive whose largest logit is at least `reach`.
template <typename Draw>
__device__ __noinline__ uint32_t collect(Draw& draw, float reach) {
    return collect_where(draw, draw.highest(), [reach](float top) { return (top >= reach) & (top > negative_infinity()); });
}

// ---- masks and edits of four tokens ----

// What edits make of four consecutive tokens, without a table.
template <typename Draw>
__device__ __noinline__ float4 edited_four(const Draw& draw, float4 x, uint32_t token) {
    draw.adjustment.apply(x, token, draw.place, draw.adjustment.word(token));
    return x;
}

// Applies masks and edits to four consecutive tokens.
template <typename Draw>
__device__ __forceinline__ void apply_edits_alone(const Draw& draw, float4& x, uint32_t token) {
    draw.adjustment.apply_masks(x, token);
    if (!draw.is_tabulated()) {
        if (draw.edited_blocks[token / BLOCK / 32] >> token / BLOCK % 32 & 1) x = edited_four(draw, x, token);
        return;
    }
    // All lanes of a block follow the same chain of links.
    draw.over_linked(token, [&](uint32_t other, uint32_t entry) {
        if (other / 4 != token / 4) return;
        const uint32_t i = other % 4;
        const float v = draw.edited_logits[entry];
        x = make_float4(i == 0 ? v : x.x, i == 1 ? v : x.y, i == 2 ? v : x.z, i == 3 ? v : x.w);
    });
}

// The same, and smoothing.
template <typename Draw>
__device__ __forceinline__ void apply_edits(const Draw& draw, float4& x, uint32_t token) {
    if (is_edited(Draw::rows)) apply_edits_alone(draw, x, token);
    if (is_staged(Draw::rows) && draw.is_smoothed) x = make_float4(draw.smoothed(x.x), draw.smoothed(x.y), draw.smoothed(x.z), draw.smoothed(x.w));
}

// The same for four tokens of the block at place `of` of the list.
template <typename Draw>
__device__ __forceinline__ void apply_edits_listed(const Draw& draw, float4& x, uint32_t of, uint32_t listed) {
    const uint32_t token = of < listed ? draw.work()[of] * BLOCK + 4 * (threadIdx.x & 15) : draw.vocabulary;
    if (token < draw.vocabulary) apply_edits(draw, x, token);
}

// ---- reading ----

// Four consecutive tokens of the unmodified row; -inf past the vocabulary.
template <typename Draw>
__device__ __forceinline__ float4 four_at(const Draw& draw, const typename Draw::Logit* row_logits, uint32_t token, uint32_t tokens) {
    // The desk is written by this kernel, so it is not read through the cache for constants; past the vocabulary it is -inf.
    if (Draw::rows == ANY && draw.desk != nullptr && token < tokens) return *reinterpret_cast<const float4*>(draw.desk + token);
    if (reinterpret_cast<uint64_t>(row_logits) % (4 * sizeof(typename Draw::Logit)) == 0 && token + 4 <= tokens) return four(row_logits + token);
    const float low = negative_infinity();
    return make_float4(token < tokens ? one(row_logits + token) : low, token + 1 < tokens ? one(row_logits + token + 1) : low, token + 2 < tokens ? one(row_logits + token + 2) : low,
                       token + 3 < tokens ? one(row_logits + token + 3) : low);
}

// Goes over the first `listed` blocks of the list, one for each half warp and AT_ONCE of them together:
// calls `each(x, start)`, where x[i] are four unmodified tokens of the block at place `start + i *
// HALVES` of the list, if there is one. Lane 0 of the half warp has the first four tokens, lane 1 the
// next four, and so on.
template <uint32_t AT_ONCE, typename Draw, typename Each>
__device__ __forceinline__ void over_fours(Draw& draw, uint32_t listed, Each each) {
    const uint32_t lane = threadIdx.x & 31, tokens = draw.vocabulary;
    const typename Draw::Logit* const row_logits = draw.logits;
#pragma unroll 1
    for (uint32_t start = threadIdx.x / 16; start - (lane >> 4) < listed; start += AT_ONCE * HALVES) {
        float4 x[AT_ONCE];
#pragma unroll
        for (uint32_t i = 0; i < AT_ONCE; i++) {
            const uint32_t of = start + i * HALVES;
            x[i] = four_at(draw, row_logits, of < listed ? draw.work()[of] * BLOCK + 4 * (lane & 15) : tokens, tokens);
        }
        each(x, start);
    }
}

// Calls `each(x, token)` for every token of the first `listed` blocks of the list, as masks and edits
// leave it: one warp per block, two tokens per lane. The reads of the next AHEAD blocks are under way
// meanwhile.
template <typename Draw, typename Each>
__device__ __forceinline__ void over(Draw& draw, uint32_t listed, Each each) {
    constexpr uint32_t AHEAD = 3;
    const uint32_t lane = threadIdx.x & 31;
    float x[AHEAD + 1], y[AHEAD + 1];
    uint32_t place = threadIdx.x >> 5;
    const auto fetch = [&](uint32_t of, float& low, float& high) {
        const uint32_t token = of < listed ? draw.work()[of] * BLOCK + lane : draw.vocabulary;
        low = draw.at(token);
        high = draw.at(token + 32);
    };
#pragma unroll
    for (uint32_t i = 0; i < AHEAD; i++) fetch(place + i * WARPS, x[i], y[i]);
#pragma unroll 1
    for (; place < listed; place += WARPS) {
        fetch(place + AHEAD * WARPS, x[AHEAD], y[AHEAD]);
        const uint32_t token = draw.work()[place] * BLOCK + lane;
#pragma unroll 1
        for (int half = 0; half < 2; half++) each(half ? y[0] : x[0], token + 32 * half);
#pragma unroll
        for (uint32_t i = 0; i < AHEAD; i++) {
            x[i] = x[i + 1];
            y[i] = y[i + 1];
        }
    }
}

// The same in any order, four tokens per lane and four blocks of a half warp at once: for sums over many blocks.
template <typename Draw, typename Each>
__device__ __forceinline__ void sweep(Draw& draw, uint32_t listed, Each each) {
    constexpr uint32_t AT_ONCE = 4;
    over_fours<AT_ONCE>(draw, listed, [&](float4 (&x)[AT_ONCE], uint32_t start) {
#pragma unroll
        for (uint32_t i = 0; i < AT_ONCE; i++) {
            const uint32_t of = start + i * HALVES, token = (of < listed ? draw.work()[of] : 0) * BLOCK + 4 * (threadIdx.x & 15);
            if (Draw::rows != BARE && !draw.is_bare) apply_edits_listed(draw, x[i], of, listed);
            each(x[i].x, token);
            each(x[i].y, token + 1);
            each(x[i].z, token + 2);
            each(x[i].w, token + 3);
        }
    });
}

// Calls `each(x, token)` for all logits of the unmodified row, sixteen bytes at a time, the first of which is `token`. Rows
// begin at a multiple of sixteen bytes.
template <typename Draw, typename Each>
__device__ __forceinline__ void over_row(const Draw& draw, Each each) {
    over_steps<typename Draw::Logit, true, DRAW_THREADS>(draw.logits, draw.vocabulary, 0, (draw.vocabulary + WEIGH_TOKENS - 1) / WEIGH_TOKENS, [] {}, each);
}

// Goes over the tokens that may come before a key: calls `each(x, bound)` for each. Those that are at least `bound` do.
template <typename Draw, typename Each>
__device__ __forceinline__ void before_key(Draw& draw, Key key, Each each) {
    typedef typename Draw::Logit T;
    // Among equal logits the lower id comes first. So a token with a lower id than the key's comes before it
    // if its logit is at least the key's, any other token only if its logit is at least the next larger
    // float.
    const float at_key = logit_of(key), after = logit_of_place(uint32_t(key >> 32) - 1);
    const uint32_t listed = collect(draw, at_key), id = uint32_t(key);
    // Where many blocks are listed, as on a flat row, the row is read from its beginning to its end: a list costs more
    // than it saves (bench/results/2026-11-18-device.md: a flat row with top-p took 25.8 us with the list and 18.9 without).
    if (Draw::rows == BARE && 4 * listed >= draw.pitch && draw.is_aligned()) {
        // The sixteen bytes that hold the key have one bound, like all others: those of their tokens that come before
        // it by their ids alone are looked at here.
        const uint32_t first = id / PACKED<T> * PACKED<T>;
        if (threadIdx.x < id - first) {
            const float x = one(draw.logits + first + threadIdx.x);
            if (x == at_key) each(x, at_key);
        }
        over_row(draw, [&](uint4 x, uint32_t token) {
            const float bound = token < first ? at_key : after;
            over_packed<T>(x, [&](float x, uint32_t) { each(x, bound); });
        });
        return;
    }
    constexpr uint32_t AT_ONCE = 4;
    over_fours<AT_ONCE>(draw, listed, [&](float4 (&x)[AT_ONCE], uint32_t start) {
#pragma unroll
        for (uint32_t i = 0; i < AT_ONCE; i++) {
            const uint32_t of = start + i * HALVES, token = (of < listed ? draw.work()[of] : 0) * BLOCK + 4 * (threadIdx.x & 15);
            if (Draw::rows != BARE && !draw.is_bare) apply_edits_listed(draw, x[i], of, listed);
            each(x[i].x, token < id ? at_key : after);
            each(x[i].y, token + 1 < id ? at_key : after);
            each(x[i].z, token + 2 < id ? at_key : after);
            each(x[i].w, token + 3 < id ? at_key : after);
        }
    });
}

// ---- what many ask for ----

// Appends the keys of some lanes to the list. All lanes of the warp come here; what does not fit is
// counted only.
template <typename Draw>
__device__ __forceinline__ void append_key(Draw& draw, bool is_in, Key key) {
    const uint32_t in = __ballot_sync(ALL_LANES, is_in), lane = threadIdx.x & 31;
    if (in == 0) return;
    uint32_t place = 0;
    if (lane == 0) place = atomicAdd(&draw.count, __popc(in));
    place = __shfl_sync(ALL_LANES, place, 0) + __popc(in & ((1u << lane) - 1));
    if (is_in && place < LIST_CAPACITY) draw.keys[place] = key;
}

// Number and mass of the tokens up to and including `last` that pass.
template <typename Draw>
__device__ __noinline__ Census census(Draw& draw, Key last, float scale) {
    const Softmax softmax = {draw.x_max, scale};
    uint64_t tokens = 0, mass = 0;
    sweep(draw, collect(draw, logit_of(last)), [&](float x, uint32_t token) {
        const bool is_in = key_of(x, token) <= last && draw.passes(x, token);
        tokens += is_in;
        mass += is_in ? weight(softmax, x) : 0;
    });
    return draw.sum(tokens, mass);
}
