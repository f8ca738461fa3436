// Edits of single tokens: the first pass found the peaks of unedited logits, and here the peaks of blocks
// with edited tokens are made right.
//
// The naive loop:
//
//     for each block that has an edited token:
//         highest[block] = max over the block's tokens of the edited logit
//
// What this code does differently:
//
// 1. An edited token first raises its block's peak to its new logit, by an atomic maximum (`change`).
// 2. Only if the token's unedited logit was at least the peak as it stood, the block is noted as "lost" and
//    read again (`repair`): its peak may have been this token's old logit. Reading every block with an edited
//    token took 3.7 us (bench/results/2026-11-16-cuda.md, "Penalties with logprobs").
// 3. Edited logits are kept in a table in shared memory, whose entries are chained by blocks (`link`), so
//    that neither this nor the race computes an edit again. Where they are too many, a bit per block says
//    that it has any, and edits are computed again when they are needed (`change_touched`).
// 4. Masses of edited blocks are computed anew, all of them (`repair_masses`).
//
// Why this is exact. Let p be the peak that the first pass found. If a token that is not edited has the logit
// p, the peak is max(p, edited logits), which 1 makes it. Otherwise only edited tokens had p. Such a token
// either saw p when it raised the peak, and the block is read again; or it saw a larger number, which is
// another token's edited logit and larger than every unedited logit of the block, so that the maximum of
// edited logits, which 1 makes it, is the peak. Reading a block again gives its true maximum in any case, so
// noting too many is harmless. Masses are estimates (nucleus.cuh).
#pragma once

#include "../number/warp.cuh"
#include "../text/history.cuh"
#include "blocks.cuh"

// Raises a float in shared memory by an integer atomic, and returns what it was. Bits of positive floats are
// in order as signed integers, and above those of negative ones; bits of negative floats are in reverse order
// as unsigned integers, and above those of positive ones.
__device__ __forceinline__ float raise(float* number, float to) {
    if (__float_as_int(to) >= 0) return __int_as_float(atomicMax(reinterpret_cast<int*>(number), __float_as_int(to)));
    return __uint_as_float(atomicMin(reinterpret_cast<uint32_t*>(number), __float_as_uint(to)));
}

// Enters the tokens of the list, of which each thread brings EDITS_PER_THREAD, and those of the draft
// into the table. It needs nothing of the first pass.
template <typename Draw>
__device__ __noinline__ void link_edits(Draw& draw, uint32_t first, uint32_t second, uint32_t third) {
    const uint32_t list[EDITS_PER_THREAD] = {first, second, third};
    const uint32_t listed = draw.sequence.edit_list_length, all = listed + draw.place.depth;
#pragma unroll
    for (uint32_t i = 0; i < EDITS_PER_THREAD; i++) {
        const uint32_t entry = threadIdx.x + i * DRAW_THREADS;
        if (entry >= all) break;
        const uint32_t token = entry < listed ? list[i] : draw.place.path[entry - listed];
        // A draft may guess an id that is no token. Such a guess is never accepted, so nobody reads the rows
        // after it.
        draw.links[entry] = token < draw.vocabulary ? token | atomicExch(&draw.heads[token / BLOCK % EDIT_TABLE_HEADS], entry) << LINK_SHIFT : NO_LINK;
    }
}

// Corrects the block of a token whose logit is not the one that the first pass saw. Any thread may call it.
template <typename Draw>
__device__ __forceinline__ void change_block(Draw& draw, uint32_t token, float x, float edited) {
    const uint32_t block = token / BLOCK, bit = 1u << block % 32;
    // A block that another token raised above this one's old logit does not need it any more.
    if (x >= raise(draw.highest() + block, edited) && !(atomicOr(draw.lost() + block / 32, bit) & bit)) draw.work()[atomicAdd(&draw.others, 1)] = block;
}

// Corrects the blocks of all tokens of the table.
template <typename Draw>
__device__ __noinline__ void change_listed(Draw& draw) {
    const uint32_t all = draw.sequence.edit_list_length + draw.place.depth;
#pragma unroll 1
    for (uint32_t entry = threadIdx.x; entry < all; entry += DRAW_THREADS) {
        const uint32_t token = draw.links[entry] & LINK_TOKEN_MASK;
        const float2 own = draw.entries()[entry];
        draw.edited_logits[entry] = own.y;
        if (token < draw.vocabulary) change_block(draw, token, own.x, own.y);
    }
    __syncthreads();
}

// Corrects the blocks of all tokens that an edit may change, without a table.
template <typename Draw>
__device__ __noinline__ void change_touched(Draw& draw) {
    // A thread looks after four blocks at a time, whose bits are eight words, and lists their tokens, as many
    // as fit the list; then all threads compute edits of the listed tokens; and so on until all bits have
    // been listed.
    constexpr uint32_t AT_MOST = LIST_CAPACITY;
    const uint32_t depth = draw.place.depth, there = draw.pitch;
    const uint32_t* const bits = draw.adjustment.touched;
    const uint32_t* const path = draw.place.path;
    uint32_t* const listed = reinterpret_cast<uint32_t*>(draw.keys);
    uint32_t quad = threadIdx.x, left = 0;
    const auto begin = [&]() {
        left = 0;
        if (4 * quad >= there) return;
        const uint4 low = reinterpret_cast<const uint4*>(bits)[2 * quad], high = reinterpret_cast<const uint4*>(bits)[2 * quad + 1];
        left = __popc(low.x) + __popc(low.y) + __popc(low.z) + __popc(low.w) + __popc(high.x) + __popc(high.y) + __popc(high.z) + __popc(high.w);
    };
    begin();
    // The place of the thread's next token among the 256 of its four blocks.
    uint32_t next = 0;
    bool is_more = true;
#pragma unroll 1
    while (is_more) {
        __syncthreads();
        if (threadIdx.x == 0) draw.count = 0;
        __syncthreads();
        uint32_t own = left > 0 ? atomicAdd(&draw.count, left) : AT_MOST;
#pragma unroll 1
        while (left > 0 && own < AT_MOST) {
            const uint32_t word = bits[8 * quad + next / 32] >> next % 32;
            if (word == 0) {
                next = (next / 32 + 1) * 32;
                continue;
            }
            next += __ffs(word) - 1;
            listed[own++] = 4 * quad * BLOCK + next++;
            left--;
        }
        if (left == 0 && 4 * quad < there) {
            quad += DRAW_THREADS;
            next = 0;
            begin();
        }
        is_more = __syncthreads_or(left > 0 || 4 * quad < there);
        // After the last bits come the tokens of the draft that have none, each once.
        const uint32_t tokens = min(draw.count, AT_MOST), drafted = is_more ? 0 : depth;
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < tokens + drafted; i += DRAW_THREADS) {
            const uint32_t token = i < tokens ? listed[i] : path[i - tokens];
            if (i >= tokens) {
                // A draft may guess an id that is no token: see `link`.
                bool is_new = token < draw.vocabulary && !has_bit(bits, token);
#pragma unroll 1
                for (uint32_t j = 0; j < i - tokens && is_new; j++) is_new = path[j] != token;
                if (!is_new) continue;
            }
            const float x = one(draw.logits + token);
            atomicOr(&draw.edited_blocks[token / BLOCK / 32], 1u << token / BLOCK % 32);
            change_block(draw, token, x, Adjustment::edited(draw.place, token, x, draw.place.counted(token)));
        }
    }
    __syncthreads();
}

// Reads the blocks again that lost their best token.
template <typename Draw>
__device__ __noinline__ void repair(Draw& draw) {
    const uint32_t blocks = draw.others;
    over_fours<1>(draw, blocks, [&](float4 (&x)[1], uint32_t start) {
        apply_edits_listed(draw, x[0], start, blocks);
        float top[1] = {largest(x[0])};
        const float all = folded<1, 16>(top, threadIdx.x, [](float a, float b) { return fmaxf(a, b); });
        if (start < blocks && threadIdx.x % 16 == 0) draw.highest()[draw.work()[start]] = all;
    });
    __syncthreads();
}

// Computes the masses of edited blocks anew, in units of what the best token weighs.
template <typename Draw>
__device__ __noinline__ void repair_masses(Draw& draw, float scale) {
    const float top = draw.x_max;
    const auto power = [=](float x) { return power_of((x - top) * scale); };
    const uint32_t blocks = collect_fours(draw, [&draw](uint32_t quad) {
        if (!draw.is_tabulated()) return draw.edited_blocks[quad / 8] >> quad % 8 * 4 & 15;
        const uint4 four = reinterpret_cast<const uint4*>(draw.heads)[quad % (EDIT_TABLE_HEADS / 4)];
        return uint32_t(four.x != END_OF_LINKS) | uint32_t(four.y != END_OF_LINKS) << 1 | uint32_t(four.z != END_OF_LINKS) << 2 | uint32_t(four.w != END_OF_LINKS) << 3;
    });
    over_fours<2>(draw, blocks, [&](float4 (&x)[2], uint32_t start) {
        const uint32_t lane = threadIdx.x & 31;
        float sums[2];
#pragma unroll
        for (uint32_t i = 0; i < 2; i++) {
            apply_edits_listed(draw, x[i], start + i * HALVES, blocks);
            sums[i] = (power(x[i].x) + power(x[i].y)) + (power(x[i].z) + power(x[i].w));
        }
        const float all = folded<2, 16>(sums, lane, [](float a, float b) { return a + b; });
        const uint32_t of = start + held<2, 16>(lane) * HALVES;
        if (of < blocks && lane % 8 == 0) draw.masses()[draw.work()[of]] = all;
    });
    __syncthreads();
}

// Whether a token is one that edits may change already.
template <typename Draw>
__device__ __forceinline__ Touched is_touched(const Draw& draw, uint32_t token) {
    if (!draw.is_tabulated() || draw.adjustment.touched == nullptr) return NOBODY_KNOWS;
    Touched found = IS_NEW;
    draw.over_linked(token, [&](uint32_t other, uint32_t) { found = other == token ? IS_TOUCHED : found; });
    return found;
}
