// Edits of single tokens: the first pass reads rows as they came or as masks leave them, and what it found of the blocks that an edit may change is made good here. Part of draw.cuh.
#pragma once

#include "draw.cuh"

// Raises a number in shared memory to another, as bits: those below 0 have the other order. What it was.
__device__ __forceinline__ float raise(float* number, float to) {
    if (__float_as_int(to) >= 0) return __int_as_float(atomicMax(reinterpret_cast<int*>(number), __float_as_int(to)));
    return __uint_as_float(atomicMin(reinterpret_cast<uint32_t*>(number), __float_as_uint(to)));
}

template <typename T, Rows ROWS>
__device__ __noinline__ void Draw<T, ROWS>::link(uint32_t first, uint32_t second, uint32_t third) {
    const uint32_t list[EDITED_EACH] = {first, second, third};
    const uint32_t listed = row.listed, all = listed + place.depth;
#pragma unroll
    for (uint32_t i = 0; i < EDITED_EACH; i++) {
        const uint32_t entry = threadIdx.x + i * DRAW_THREADS;
        if (entry >= all) break;
        const uint32_t token = entry < listed ? list[i] : place.path[entry - listed];
        // Nobody looks at the rows after a guess that is no token.
        links[entry] = token < vocabulary ? token | atomicExch(&heads[token / BLOCK % HEADS], entry) << LINK_SHIFT : ALL;
    }
}

template <typename T, Rows ROWS>
__device__ __forceinline__ void Draw<T, ROWS>::change(uint32_t token, float x, float edited) {
    const uint32_t block = token / BLOCK, bit = 1u << block % 32;
    // A block that was raised above its best has no need of it.
    if (x >= raise(highest() + block, edited) && !(atomicOr(lost() + block / 32, bit) & bit)) work()[atomicAdd(&others, 1)] = block;
}

template <typename T, Rows ROWS>
__device__ __noinline__ void Draw<T, ROWS>::change_listed() {
    const uint32_t all = row.listed + place.depth;
#pragma unroll 1
    for (uint32_t entry = threadIdx.x; entry < all; entry += DRAW_THREADS) {
        const uint32_t token = links[entry] & TOKEN_BITS;
        const float2 own = entries()[entry];
        edited_logits[entry] = own.y;
        if (token < vocabulary) change(token, own.x, own.y);
    }
    __syncthreads();
}

template <typename T, Rows ROWS>
__device__ __noinline__ void Draw<T, ROWS>::change_touched() {
    // The bits of four blocks are eight words, which a thread has; the tokens are listed, as many at a time as fit.
    constexpr uint32_t AT_MOST = LISTED;
    const uint32_t depth = place.depth, there = pitch;
    const uint32_t* const bits = adjustment.touched;
    const uint32_t* const path = place.path;
    uint32_t* const listed = reinterpret_cast<uint32_t*>(keys);
    uint32_t quad = threadIdx.x, left = 0;
    const auto begin = [&]() {
        left = 0;
        if (4 * quad >= there) return;
        const uint4 low = reinterpret_cast<const uint4*>(bits)[2 * quad], high = reinterpret_cast<const uint4*>(bits)[2 * quad + 1];
        left = __popc(low.x) + __popc(low.y) + __popc(low.z) + __popc(low.w) + __popc(high.x) + __popc(high.y) + __popc(high.z) + __popc(high.w);
    };
    begin();
    // The place of a thread's next token, among the 256 of its blocks.
    uint32_t next = 0;
    bool is_more = true;
#pragma unroll 1
    while (is_more) {
        __syncthreads();
        if (threadIdx.x == 0) count = 0;
        __syncthreads();
        uint32_t own = left > 0 ? atomicAdd(&count, left) : AT_MOST;
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
        // A draft's tokens without bits come last, each once.
        const uint32_t tokens = min(count, AT_MOST), drafted = is_more ? 0 : depth;
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < tokens + drafted; i += DRAW_THREADS) {
            const uint32_t token = i < tokens ? listed[i] : path[i - tokens];
            if (i >= tokens) {
                // Nobody looks at the rows after a guess that is no token.
                bool is_new = token < vocabulary && !has_bit(bits, token);
#pragma unroll 1
                for (uint32_t j = 0; j < i - tokens && is_new; j++) is_new = path[j] != token;
                if (!is_new) continue;
            }
            const float x = one(logits + token);
            atomicOr(&edited_blocks[token / BLOCK / 32], 1u << token / BLOCK % 32);
            change(token, x, Adjustment::edited(place, token, x, place.counted(token)));
        }
    }
    __syncthreads();
}

template <typename T, Rows ROWS>
__device__ __noinline__ void Draw<T, ROWS>::repair() {
    const uint32_t blocks = others;
    over_fours<1>(blocks, [&](float4 (&x)[1], uint32_t start) {
        adjust(x[0], start, blocks);
        float top[1] = {largest(x[0])};
        const float all = folded<1, 16>(top, threadIdx.x, [](float a, float b) { return fmaxf(a, b); });
        if (start < blocks && threadIdx.x % 16 == 0) highest()[work()[start]] = all;
    });
    __syncthreads();
}

template <typename T, Rows ROWS>
__device__ __noinline__ void Draw<T, ROWS>::repair_masses(float scale) {
    const float top = x_max;
    const auto power = [=](float x) { return power_of((x - top) * scale); };
    const uint32_t blocks = collect_fours([this](uint32_t quad) {
        if (!is_tabulated()) return edited_blocks[quad / 8] >> quad % 8 * 4 & 15;
        const uint4 four = reinterpret_cast<const uint4*>(heads)[quad % (HEADS / 4)];
        return uint32_t(four.x != NONE) | uint32_t(four.y != NONE) << 1 | uint32_t(four.z != NONE) << 2 | uint32_t(four.w != NONE) << 3;
    });
    over_fours<2>(blocks, [&](float4 (&x)[2], uint32_t start) {
        const uint32_t lane = threadIdx.x & 31;
        float sums[2];
#pragma unroll
        for (uint32_t i = 0; i < 2; i++) {
            adjust(x[i], start + i * HALVES, blocks);
            sums[i] = (power(x[i].x) + power(x[i].y)) + (power(x[i].z) + power(x[i].w));
        }
        const float all = folded<2, 16>(sums, lane, [](float a, float b) { return a + b; });
        const uint32_t of = start + held<2, 16>(lane) * HALVES;
        if (of < blocks && lane % 8 == 0) masses()[work()[of]] = all;
    });
    __syncthreads();
}
