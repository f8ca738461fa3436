// The first pass: one read of the rows, a peak for every block of 64 tokens. Sixteen threads hold a block, four logits each.
#pragma once

#include "row.cuh"

constexpr int SKYLINE_THREADS = 256;

// NaN or +inf: the lowest such id decides. Both are rare, so nobody else pays for them.
__device__ __noinline__ void report_bad(float4 x, uint32_t token, uint32_t vocabulary, uint32_t* bad) {
    const float logits[4] = {x.x, x.y, x.z, x.w};
    for (uint32_t i = 0; i < 4; i++) {
        if (token + i < vocabulary && !(logits[i] < __uint_as_float(0x7f800000u))) atomicMin(bad, token + i);
    }
}

// Each warp takes 2 * STEPS blocks.
template <typename T, int STEPS, bool ALIGNED>
__device__ __forceinline__ void skyline(const Row* rows, const T* logits, int64_t stride, uint32_t vocabulary, Peak* peaks, float* sums, uint32_t pitch, uint32_t* bad) {
    const uint32_t row = blockIdx.y, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const uint32_t first = (blockIdx.x * (SKYLINE_THREADS / 32) + warp) * (2 * STEPS);
    const T* at = logits + int64_t(row) * stride;
    const uint32_t* mask = rows[row].mask;
    const float scale = rows[row].sum_scale;
    const float low = negative_infinity();
    float4 x[STEPS];
    float2 own = {};
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        const uint32_t token = (first + 2 * step) * BLOCK + 4 * lane;
        if (ALIGNED && token + 4 <= vocabulary) {
            x[step] = four(at + token);
        } else {
            x[step] = make_float4(token < vocabulary ? widened(at[token]) : low, token + 1 < vocabulary ? widened(at[token + 1]) : low,
                                  token + 2 < vocabulary ? widened(at[token + 2]) : low, token + 3 < vocabulary ? widened(at[token + 3]) : low);
        }
    }
    // The noise of a block is computed while the reads are under way.
    const uint32_t block = first + lane;
    const bool holds = lane < 2 * STEPS && block * BLOCK < vocabulary;
    uint32_t luck = 0;
    if (holds && !rows[row].is_greedy) {
        constexpr float LN_64 = 4.158883083f;
        const Noise noise = {rows[row].seed, rows[row].position, rows[row].sequence, rows[row].round};
        const uint32_t minimum = word(words(noise, BLOCK_MINIMUM, block / 4), block % 4), lane_word = word(words(noise, BLOCK_LANE, block / 4), block % 4);
        luck = (__float_as_uint(LN_64 - __logf(rough_exponential(minimum))) & ~LANE_BITS) | lane_word >> 26;
    }
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        const uint32_t token = (first + 2 * step) * BLOCK + 4 * lane;
        float4& v = x[step];
        const bool sound = v.x < __uint_as_float(0x7f800000u) && v.y < __uint_as_float(0x7f800000u) && v.z < __uint_as_float(0x7f800000u) && v.w < __uint_as_float(0x7f800000u);
        if (!sound) report_bad(v, token, vocabulary, bad + row);
        if (mask != nullptr && token < vocabulary) {
            const uint32_t bits = mask[token / 32] >> (token % 32);
            v.x = bits & 1 ? v.x : low;
            v.y = bits & 2 ? v.y : low;
            v.z = bits & 4 ? v.z : low;
            v.w = bits & 8 ? v.w : low;
        }
        float highest = fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w));
#pragma unroll
        for (int offset = 8; offset > 0; offset >>= 1) highest = fmaxf(highest, __shfl_xor_sync(0xffffffffu, highest, offset));
        float sum = 0.0f;
        if (scale != 0.0f) {
            // Nothing alive: everything is -inf, and 2^NaN must not be asked for.
            const float top = highest > low ? highest : 0.0f;
            sum = exp2f((v.x - top) * scale) + exp2f((v.y - top) * scale) + exp2f((v.z - top) * scale) + exp2f((v.w - top) * scale);
#pragma unroll
            for (int offset = 8; offset > 0; offset >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
        }
        // Lane i of the warp keeps the peak of its block number i.
        const float high0 = __shfl_sync(0xffffffffu, highest, 0), high1 = __shfl_sync(0xffffffffu, highest, 16);
        const float sum0 = __shfl_sync(0xffffffffu, sum, 0), sum1 = __shfl_sync(0xffffffffu, sum, 16);
        if (lane == 2 * step) own = {high0, sum0};
        if (lane == 2 * step + 1) own = {high1, sum1};
    }
    if (holds) {
        peaks[uint64_t(row) * pitch + block] = {own.x, __uint_as_float(luck)};
        if (scale != 0.0f) sums[uint64_t(row) * pitch + block] = own.y;
    }
}
