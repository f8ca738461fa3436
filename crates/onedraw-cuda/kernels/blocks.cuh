// Listing blocks, and reading the tokens of those that are listed. Part of draw.cuh.
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
//    half a warp per block and four tokens per lane, several blocks at once (`over_fours`). Reads are issued
//    before the blocks before them are done with.
// 3. Masks and edits are applied when a token is read.
//
// Why this is exact: the largest logits of blocks are exact (skyline.cuh, repair.cuh), so a block that is not
// listed has no token of at least `reach` (1). What callers do with tokens does not depend on their order:
// they add integers, take maxima, or list keys (2). Edits depend on the token alone (3, edit.cuh).
#pragma once

#include "draw.cuh"

template <typename T, Rows ROWS>
template <typename Flags>
__device__ __forceinline__ uint32_t Draw<T, ROWS>::collect_fours(Flags flags) {
    uint32_t* const listed = work();
    __syncthreads();
    if (threadIdx.x == 0) count = others = 0;
    __syncthreads();
#pragma unroll 1
    for (uint32_t quad = threadIdx.x; quad < padded_blocks / 4; quad += DRAW_THREADS) {
        const uint32_t own = flags(quad);
        if (own == 0) continue;
        uint32_t place = atomicAdd(&count, __popc(own));
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            if (own >> i & 1) listed[place++] = 4 * quad + i;
        }
    }
    __syncthreads();
    return count;
}

template <typename T, Rows ROWS>
template <typename Reaches>
__device__ __forceinline__ uint32_t Draw<T, ROWS>::collect_where(const float* numbers, Reaches reaches) {
    return collect_fours([=](uint32_t quad) {
        const float4 four = reinterpret_cast<const float4*>(numbers)[quad];
        return uint32_t(reaches(four.x)) | uint32_t(reaches(four.y)) << 1 | uint32_t(reaches(four.z)) << 2 | uint32_t(reaches(four.w)) << 3;
    });
}

template <typename T, Rows ROWS>
__device__ __noinline__ uint32_t Draw<T, ROWS>::collect(float reach) {
    return collect_where(highest(), [reach](float top) { return (top >= reach) & (top > negative_infinity()); });
}

template <typename T, Rows ROWS>
__device__ __forceinline__ float4 Draw<T, ROWS>::four_at(const T* row_logits, uint32_t token, uint32_t tokens) const {
    // The desk is written by this kernel, so it is not read through the cache for constants; past the vocabulary it is -inf.
    if (ROWS == ANY && desk != nullptr && token < tokens) return *reinterpret_cast<const float4*>(desk + token);
    if (reinterpret_cast<uint64_t>(row_logits) % (4 * sizeof(T)) == 0 && token + 4 <= tokens) return four(row_logits + token);
    const float low = negative_infinity();
    return make_float4(token < tokens ? one(row_logits + token) : low, token + 1 < tokens ? one(row_logits + token + 1) : low, token + 2 < tokens ? one(row_logits + token + 2) : low,
                       token + 3 < tokens ? one(row_logits + token + 3) : low);
}

template <typename T, Rows ROWS>
template <uint32_t AT_ONCE, typename Each>
__device__ __forceinline__ void Draw<T, ROWS>::over_fours(uint32_t listed, Each each) {
    const uint32_t lane = threadIdx.x & 31, tokens = vocabulary;
    const T* const row_logits = logits;
#pragma unroll 1
    for (uint32_t start = threadIdx.x / 16; start - (lane >> 4) < listed; start += AT_ONCE * HALVES) {
        float4 x[AT_ONCE];
#pragma unroll
        for (uint32_t i = 0; i < AT_ONCE; i++) {
            const uint32_t of = start + i * HALVES;
            x[i] = four_at(row_logits, of < listed ? work()[of] * BLOCK + 4 * (lane & 15) : tokens, tokens);
        }
        each(x, start);
    }
}

template <typename T, Rows ROWS>
template <typename Each>
__device__ __forceinline__ void Draw<T, ROWS>::over(uint32_t listed, Each each) {
    constexpr uint32_t AHEAD = 3;
    const uint32_t lane = threadIdx.x & 31;
    float x[AHEAD + 1], y[AHEAD + 1];
    uint32_t place = threadIdx.x >> 5;
    const auto fetch = [&](uint32_t of, float& low, float& high) {
        const uint32_t token = of < listed ? work()[of] * BLOCK + lane : vocabulary;
        low = at(token);
        high = at(token + 32);
    };
#pragma unroll
    for (uint32_t i = 0; i < AHEAD; i++) fetch(place + i * WARPS, x[i], y[i]);
#pragma unroll 1
    for (; place < listed; place += WARPS) {
        fetch(place + AHEAD * WARPS, x[AHEAD], y[AHEAD]);
        const uint32_t token = work()[place] * BLOCK + lane;
#pragma unroll 1
        for (int half = 0; half < 2; half++) each(half ? y[0] : x[0], token + 32 * half);
#pragma unroll
        for (uint32_t i = 0; i < AHEAD; i++) {
            x[i] = x[i + 1];
            y[i] = y[i + 1];
        }
    }
}

template <typename T, Rows ROWS>
__device__ __forceinline__ void Draw<T, ROWS>::apply_edits_listed(float4& x, uint32_t of, uint32_t listed) const {
    const uint32_t token = of < listed ? work()[of] * BLOCK + 4 * (threadIdx.x & 15) : vocabulary;
    if (token < vocabulary) apply_edits(x, token);
}

template <typename T, Rows ROWS>
__device__ __forceinline__ void Draw<T, ROWS>::apply_edits(float4& x, uint32_t token) const {
    apply_edits_alone(x, token);
    if (ROWS == ANY && is_smoothed) x = make_float4(smoothed(x.x), smoothed(x.y), smoothed(x.z), smoothed(x.w));
}

template <typename T, Rows ROWS>
__device__ __forceinline__ void Draw<T, ROWS>::apply_edits_alone(float4& x, uint32_t token) const {
    adjustment.apply_masks(x, token);
    if (!is_tabulated()) {
        if (edited_blocks[token / BLOCK / 32] >> token / BLOCK % 32 & 1) x = edited_four(x, token);
        return;
    }
    // All lanes of a block follow the same chain of links.
    over_linked(token, [&](uint32_t other, uint32_t entry) {
        if (other / 4 != token / 4) return;
        const uint32_t i = other % 4;
        const float v = edited_logits[entry];
        x = make_float4(i == 0 ? v : x.x, i == 1 ? v : x.y, i == 2 ? v : x.z, i == 3 ? v : x.w);
    });
}

template <typename T, Rows ROWS>
template <typename Each>
__device__ __forceinline__ void Draw<T, ROWS>::before_key(Key key, Each each) {
    // Eight blocks are 32 logits per lane, all of them read at once: with two per lane a flat row with top-p
    // took 43.9 us instead of 25.3 (bench/results/2026-11-16-cuda.md). Other forms have fewer registers to
    // spare.
    constexpr uint32_t AT_ONCE = ROWS == BARE ? 8 : 4;
    // Among equal logits the lower id comes first. So a token with a lower id than the key's comes before it
    // if its logit is at least the key's, any other token only if its logit is at least the next larger
    // float.
    const float at_key = logit_of(key), after = logit_of_place(uint32_t(key >> 32) - 1);
    const uint32_t listed = collect(at_key), id = uint32_t(key);
    over_fours<AT_ONCE>(listed, [&](float4 (&x)[AT_ONCE], uint32_t start) {
#pragma unroll
        for (uint32_t i = 0; i < AT_ONCE; i++) {
            const uint32_t of = start + i * HALVES, token = (of < listed ? work()[of] : 0) * BLOCK + 4 * (threadIdx.x & 15);
            if (ROWS != BARE && !is_bare) apply_edits_listed(x[i], of, listed);
            const auto is_before = [=](float x, uint32_t token) { return x >= (token < id ? at_key : after); };
            each(x[i], bool4{is_before(x[i].x, token), is_before(x[i].y, token + 1), is_before(x[i].z, token + 2), is_before(x[i].w, token + 3)});
        }
    });
}

template <typename T, Rows ROWS>
__device__ __forceinline__ void Draw<T, ROWS>::append_key(bool is_in, Key key) {
    const uint32_t in = __ballot_sync(ALL_LANES, is_in), lane = threadIdx.x & 31;
    if (in == 0) return;
    uint32_t place = 0;
    if (lane == 0) place = atomicAdd(&count, __popc(in));
    place = __shfl_sync(ALL_LANES, place, 0) + __popc(in & ((1u << lane) - 1));
    if (is_in && place < LIST_CAPACITY) keys[place] = key;
}

template <typename T, Rows ROWS>
__device__ __noinline__ Census Draw<T, ROWS>::census(Key last, float scale) {
    const Softmax softmax = {x_max, scale};
    uint64_t tokens = 0, mass = 0;
    over(collect(logit_of(last)), [&](float x, uint32_t token) {
        const bool is_in = key_of(x, token) <= last && passes(x, token);
        tokens += is_in;
        mass += is_in ? weight(softmax, x) : 0;
    });
    return sum(tokens, mass);
}
