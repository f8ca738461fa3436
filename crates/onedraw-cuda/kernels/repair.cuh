// Edits of single tokens: the first pass reads rows as they came or as masks leave them, and what it found of the blocks that an edit may change is made good here. Part of draw.cuh.
#pragma once

#include "draw.cuh"

// Raises a number in shared memory to another, as bits: those below 0 have the other order. What it was.
__device__ __forceinline__ float raise(float* number, float to) {
    if (__float_as_int(to) >= 0) return __int_as_float(atomicMax(reinterpret_cast<int*>(number), __float_as_int(to)));
    return __uint_as_float(atomicMin(reinterpret_cast<uint32_t*>(number), __float_as_uint(to)));
}

template <typename T, bool BARE>
template <typename Each>
__device__ __forceinline__ void Draw<T, BARE>::over_touched(Each each) {
    // The bits of four blocks are eight words, which a thread has; the tokens are listed, as many at a time as fit.
    constexpr uint32_t AT_MOST = LISTED;
    const uint32_t depth = place.depth, there = pitch;
    const uint32_t* const bits = adjustment.touched;
    const uint32_t* const path = place.path;
    const uint2* const counts = row.counts;
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
            // Under way together with the logit.
            if (counts != nullptr) expect(counts + token);
            each(token, one(logits + token));
        }
    }
    __syncthreads();
}

template <typename T, bool BARE>
__device__ __noinline__ void Draw<T, BARE>::repair() {
    // A bit for each block that loses its best token, behind the list of tokens.
    uint32_t* const lost = reinterpret_cast<uint32_t*>(keys + LISTED / 2);
    for (uint32_t i = threadIdx.x; i < room / 32; i += DRAW_THREADS) lost[i] = 0;
    over_touched([&](uint32_t token, float x) {
        const uint32_t block = token / BLOCK;
        // A block that was raised above its best has no need of it.
        if (x >= raise(highest() + block, Adjustment::edited(place, token, x))) atomicOr(&lost[block / 32], 1u << block % 32);
    });
    // These are looked at again, all of them.
    const uint32_t blocks = collect_fours([=](uint32_t quad) { return lost[quad / 8] >> quad % 8 * 4 & 15; });
    over_fours<1>(blocks, [&](float4 (&x)[1], uint32_t start) {
        adjust(x[0], start, blocks);
        float top[1] = {largest(x[0])};
        const float all = folded<1, 16>(top, threadIdx.x, [](float a, float b) { return fmaxf(a, b); });
        if (start < blocks && threadIdx.x % 16 == 0) highest()[work()[start]] = all;
    });
    __syncthreads();
}

template <typename T, bool BARE>
__device__ __noinline__ void Draw<T, BARE>::repair_masses(float scale) {
    const uint32_t* const bits = adjustment.touched;
    const uint32_t depth = place.depth, there = pitch;
    const float top = x_max;
    const auto power = [=](float x) { return power_of((x - top) * scale); };
    // First what the other tokens of such a block have.
    uint32_t blocks = collect_fours([=](uint32_t quad) {
        if (4 * quad >= there) return 0u;
        const uint4 low = reinterpret_cast<const uint4*>(bits)[2 * quad], high = reinterpret_cast<const uint4*>(bits)[2 * quad + 1];
        return uint32_t((low.x | low.y) != 0) | uint32_t((low.z | low.w) != 0) << 1 | uint32_t((high.x | high.y) != 0) << 2 | uint32_t((high.z | high.w) != 0) << 3;
    });
    // A draft's tokens have no bits: each block of theirs once.
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < depth; i += DRAW_THREADS) {
        if (place.path[i] >= vocabulary) continue;
        const uint32_t block = place.path[i] / BLOCK;
        bool is_new = (bits[2 * block] | bits[2 * block + 1]) == 0;
#pragma unroll 1
        for (uint32_t j = 0; j < i && is_new; j++) is_new = place.path[j] / BLOCK != block;
        if (is_new) work()[atomicAdd(&count, 1)] = block;
    }
    __syncthreads();
    blocks = count;
    over_fours<2>(blocks, [&](float4 (&x)[2], uint32_t start) {
        const uint32_t lane = threadIdx.x & 31;
        float sums[2];
        uint32_t words[2];
#pragma unroll
        for (uint32_t i = 0; i < 2; i++) words[i] = start + i * HALVES < blocks ? bits[work()[start + i * HALVES] * 2 + (lane & 15) / 8] : ALL;
#pragma unroll
        for (uint32_t i = 0; i < 2; i++) {
            const uint32_t of = start + i * HALVES, token = of < blocks ? work()[of] * BLOCK + 4 * (lane & 15) : vocabulary, which = place.touched(words[i], token);
            if (token < vocabulary) adjustment.apply_masks(x[i], token);
            sums[i] = (which & 1 ? 0.0f : power(x[i].x)) + (which & 2 ? 0.0f : power(x[i].y)) + (which & 4 ? 0.0f : power(x[i].z)) + (which & 8 ? 0.0f : power(x[i].w));
        }
        const float all = folded<2, 16>(sums, lane, [](float a, float b) { return a + b; });
        const uint32_t of = start + held<2, 16>(lane) * HALVES;
        if (of < blocks && lane % 8 == 0) masses()[work()[of]] = all;
    });
    // Then the edited ones.
    over_touched([&](uint32_t token, float x) { atomicAdd(masses() + token / BLOCK, power(Adjustment::edited(place, token, x))); });
}
