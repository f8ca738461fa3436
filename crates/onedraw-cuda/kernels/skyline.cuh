// The first pass: one read of the rows, a peak for every block of 64 tokens. Sixteen threads hold a block, four logits each.
#pragma once

#include "edit.cuh"

constexpr int SKYLINE_THREADS = 256;

// NaN or +inf: the lowest such id decides. Both are rare, so nobody else pays for them.
__device__ __noinline__ void report_bad(float4 x, uint32_t token, uint32_t vocabulary, uint32_t* bad) {
    const float logits[4] = {x.x, x.y, x.z, x.w};
    for (uint32_t i = 0; i < 4; i++) {
        if (token + i < vocabulary && !(logits[i] < __uint_as_float(0x7f800000u))) atomicMin(bad, token + i);
    }
}

__device__ __forceinline__ void check(float4 v, uint32_t token, uint32_t vocabulary, uint32_t* bad) {
    const float limit = __uint_as_float(0x7f800000u);
    if (!(v.x < limit && v.y < limit && v.z < limit && v.w < limit)) report_bad(v, token, vocabulary, bad);
}

// The largest of the sixteen threads of a block.
__device__ __forceinline__ float highest_of(float4 v) {
    float highest = fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w));
#pragma unroll
    for (int offset = 8; offset > 0; offset >>= 1) highest = fmaxf(highest, __shfl_xor_sync(0xffffffffu, highest, offset));
    return highest;
}

// Each warp takes 2 * STEPS blocks. Without EDITS there is no sequence that edits single tokens or asks for raw logprobs: masks alone.
template <typename T, int STEPS, bool ALIGNED, bool EDITS>
__device__ __forceinline__ void skyline(const Step& step) {
    const uint32_t row = blockIdx.y, lane = threadIdx.x & 31, warp = threadIdx.x >> 5, vocabulary = step.vocabulary;
    const uint32_t first = (blockIdx.x * (SKYLINE_THREADS / 32) + warp) * (2 * STEPS);
    const T* at = static_cast<const T*>(step.logits) + int64_t(row) * step.stride;
    const float low = negative_infinity();
    float4 x[STEPS];
#pragma unroll
    for (int i = 0; i < STEPS; i++) {
        const uint32_t token = (first + 2 * i) * BLOCK + 4 * lane;
        if (ALIGNED && token + 4 <= vocabulary) {
            x[i] = four(at + token);
        } else {
            x[i] = make_float4(token < vocabulary ? widened(at[token]) : low, token + 1 < vocabulary ? widened(at[token + 1]) : low,
                               token + 2 < vocabulary ? widened(at[token + 2]) : low, token + 3 < vocabulary ? widened(at[token + 3]) : low);
        }
    }
    // While the reads are under way: what the sequence asks for, and the noise of the blocks.
    const Task task = step.tasks[row];
    const Sequence& sequence = step.sequences[task.slot];
    const Place place = {&sequence, task.mask, task.path, task.depth};
    const Adjustment adjustment = {task.mask, sequence.allowed, sequence.touched};
    const float scale = sequence.sum_scale;
    const bool is_raw = EDITS && sequence.logprobs > 0 && sequence.logprobs_mode <= RAW_LOGITS;
    const uint32_t block = first + lane;
    const bool holds = lane < 2 * STEPS && block * BLOCK < vocabulary;
    uint32_t luck = 0;
    if (holds && !sequence.is_greedy) {
        constexpr float LN_64 = 4.158883083f;
        const Noise noise = {sequence.seed, sequence.position + task.depth, sequence.sequence, sequence.round};
        const uint32_t minimum = word(words(noise, BLOCK_MINIMUM, block / 4), block % 4), lane_word = word(words(noise, BLOCK_LANE, block / 4), block % 4);
        luck = (__float_as_uint(LN_64 - __logf(rough_exponential(minimum))) & ~LANE_BITS) | lane_word >> 26;
    }
    float2 own = {};
    float raw = low;
    if (EDITS) {
        // Bad logits and raw peaks are those of the row as it came.
        uint32_t which = 0;
#pragma unroll
        for (int i = 0; i < STEPS; i++) {
            const uint32_t token = (first + 2 * i) * BLOCK + 4 * lane;
            check(x[i], token, vocabulary, step.bad + row);
            if (is_raw) {
                const float highest = highest_of(x[i]);
                const float high0 = __shfl_sync(0xffffffffu, highest, 0), high1 = __shfl_sync(0xffffffffu, highest, 16);
                if (lane == 2 * i) raw = high0;
                if (lane == 2 * i + 1) raw = high1;
            }
            if (adjustment.touched != nullptr && token < vocabulary) which |= place.touched(adjustment.touched, token) << 4 * i;
        }
        // One place in the code, whichever token it is.
#pragma unroll 1
        for (; which != 0; which &= which - 1) {
            const uint32_t one = __ffs(which) - 1, token = (first + 2 * (one / 4)) * BLOCK + 4 * lane + one % 4;
            float v = 0.0f;
#pragma unroll
            for (uint32_t i = 0; i < STEPS; i++) {
                if (one == 4 * i) v = x[i].x;
                if (one == 4 * i + 1) v = x[i].y;
                if (one == 4 * i + 2) v = x[i].z;
                if (one == 4 * i + 3) v = x[i].w;
            }
            v = place.edited(token, v, sequence.edits);
#pragma unroll
            for (uint32_t i = 0; i < STEPS; i++) {
                if (one == 4 * i) x[i].x = v;
                if (one == 4 * i + 1) x[i].y = v;
                if (one == 4 * i + 2) x[i].z = v;
                if (one == 4 * i + 3) x[i].w = v;
            }
        }
    }
#pragma unroll
    for (int i = 0; i < STEPS; i++) {
        const uint32_t token = (first + 2 * i) * BLOCK + 4 * lane;
        float4& v = x[i];
        if (!EDITS) check(v, token, vocabulary, step.bad + row);
        if (token < vocabulary) adjustment.apply_masks(v, token);
        const float highest = highest_of(v);
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
        if (lane == 2 * i) own = {high0, sum0};
        if (lane == 2 * i + 1) own = {high1, sum1};
    }
    if (holds) {
        const uint64_t place_of = uint64_t(row) * step.pitch + block;
        step.peaks[place_of] = {own.x, __uint_as_float(luck)};
        if (scale != 0.0f) step.sums[place_of] = own.y;
        if (is_raw) step.raw_tops[place_of] = raw;
    }
}
