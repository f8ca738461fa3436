// The first pass: one read of the rows, the largest logit of every block of 64 tokens. Sixteen threads hold a block, four logits each.
#pragma once

#include "edit.cuh"

constexpr int SKYLINE_THREADS = 256;

// What the sequences of a batch ask of the first pass.
enum Asked {
    // Nothing: no sequence is looked at.
    MAXIMA = 0,
    // Masks, and masses for TOP_P.
    MASKS_AND_SUMS = 1,
    // Edits of single tokens and raw logprobs, too.
    EVERYTHING = 2,
};

// NaN or +inf: the lowest such id decides. Both are rare, so nobody else pays for them.
__device__ __noinline__ void report_bad(float4 x, uint32_t token, uint32_t vocabulary, uint32_t* bad) {
    const float logits[4] = {x.x, x.y, x.z, x.w};
    for (uint32_t i = 0; i < 4; i++) {
        if (token + i < vocabulary && !(logits[i] < __uint_as_float(0x7f800000u))) atomicMin(bad, token + i);
    }
}

__device__ __forceinline__ float largest(float4 v) { return fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)); }

// Folds each of N values over sixteen threads, so that thread i ends up with the value number `held(i)`. Half of the values change hands at each
// step: N - 1 exchanges and what is left of the four, instead of four each.
template <int N, typename Fold>
__device__ __forceinline__ float folded(float (&values)[N], uint32_t lane, Fold fold) {
    int offset = 8;
#pragma unroll
    for (int left = N; left > 1; left /= 2) {
        const bool is_upper = lane & offset;
#pragma unroll
        for (int i = 0; i < left / 2; i++) {
            const float given = is_upper ? values[i] : values[i + left / 2], kept = is_upper ? values[i + left / 2] : values[i];
            values[i] = fold(kept, __shfl_xor_sync(0xffffffffu, given, offset));
        }
        offset /= 2;
    }
#pragma unroll
    for (; offset > 0; offset /= 2) values[0] = fold(values[0], __shfl_xor_sync(0xffffffffu, values[0], offset));
    return values[0];
}

// N is a power of two: the value's number is in the highest of the thread's four bits.
template <int N>
__device__ __forceinline__ uint32_t held(uint32_t lane) {
    return (lane & 15) / (16 / N);
}

// The largest of a warp. The order of the bits is that of the numbers, for those above 0 and turned round for those below.
__device__ __forceinline__ int order_of(float x) {
    const int bits = __float_as_int(x);
    return bits ^ (bits >> 31 & 0x7fffffff);
}
__device__ __forceinline__ float number_of(int order) { return __int_as_float(order ^ (order >> 31 & 0x7fffffff)); }
__device__ __forceinline__ float largest_of_warp(float x) { return number_of(__reduce_max_sync(0xffffffffu, order_of(x))); }

constexpr uint32_t LANE_BITS = 63;

// The noise of the blocks of a row, which hangs on no logit: a thread has four blocks, which share their words.
__device__ __forceinline__ void throw_dice(const Step& step) {
    constexpr float LN_64 = 4.158883083f;
    let_the_next_begin();
    const uint32_t row = blockIdx.y, four = blockIdx.x * SKYLINE_THREADS + threadIdx.x;
    const Task task = step.tasks[row];
    const Sequence& sequence = step.sequences[task.slot];
    if (sequence.is_greedy || 4 * four >= step.pitch) return;
    const Noise noise = {sequence.seed, sequence.position + task.depth, sequence.sequence, sequence.round};
    const uint4 minima = words(noise, BLOCK_MINIMUM, four), lanes = words(noise, BLOCK_LANE, four);
    const auto luck = [](uint32_t minimum, uint32_t lane) {
        return __uint_as_float((__float_as_uint(LN_64 - rough_ln(rough_exponential(minimum))) & ~LANE_BITS) | lane >> 26);
    };
    reinterpret_cast<float4*>(step.lucks + uint64_t(row) * step.pitch)[four] = make_float4(luck(minima.x, lanes.x), luck(minima.y, lanes.y), luck(minima.z, lanes.z), luck(minima.w, lanes.w));
}

// Each warp takes 2 * STEPS blocks.
template <typename T, int STEPS, bool ALIGNED, Asked ASKED>
__device__ __forceinline__ void skyline(const Step& step) {
    const uint32_t row = blockIdx.y, lane = threadIdx.x & 31, warp = threadIdx.x >> 5, vocabulary = step.vocabulary;
    if (blockIdx.x < step.dice) return throw_dice(step);
    const uint32_t group = (blockIdx.x - step.dice) * (SKYLINE_THREADS / 32) + warp, first = group * (2 * STEPS);
    const T* at = static_cast<const T*>(step.logits) + int64_t(row) * step.stride;
    const float low = negative_infinity(), limit = __uint_as_float(0x7f800000u);
    float4 x[STEPS];
#pragma unroll
    for (int i = 0; i < STEPS; i++) {
        const uint32_t token = (first + 2 * i) * BLOCK + 4 * lane;
        if (ALIGNED && token + 4 <= vocabulary) {
            x[i] = four_once(at + token);
        } else {
            x[i] = make_float4(token < vocabulary ? widened(at[token]) : low, token + 1 < vocabulary ? widened(at[token + 1]) : low,
                               token + 2 < vocabulary ? widened(at[token + 2]) : low, token + 3 < vocabulary ? widened(at[token + 3]) : low);
        }
    }
    let_the_next_begin();
    // While the reads are under way: what the sequence asks for.
    Place place = {};
    Adjustment adjustment = {};
    float scale = 0.0f;
    bool is_raw = false;
    if (ASKED != MAXIMA) {
        const Task task = step.tasks[row];
        const Sequence& sequence = step.sequences[task.slot];
        place = {&sequence, task.mask, task.path, task.depth};
        adjustment = {task.mask, sequence.allowed, sequence.touched};
        scale = sequence.sum_scale;
        is_raw = ASKED == EVERYTHING && sequence.logprobs > 0 && sequence.logprobs_mode <= RAW_LOGITS && (task.mask != nullptr || sequence.allowed != nullptr || sequence.touched != nullptr);
    }
    // A NaN is not below the limit, nor is +inf.
    bool is_sound = true;
#pragma unroll
    for (int i = 0; i < STEPS; i++) is_sound = is_sound && x[i].x < limit && x[i].y < limit && x[i].z < limit && x[i].w < limit;
    if (!is_sound) {
#pragma unroll
        for (int i = 0; i < STEPS; i++) report_bad(x[i], (first + 2 * i) * BLOCK + 4 * lane, vocabulary, step.bad + row);
    }
    const uint32_t own = first + 2 * held<STEPS>(lane) + (lane >> 4);
    const bool writes = lane % (16 / STEPS) == 0 && own * BLOCK < vocabulary;
    const uint64_t place_of = uint64_t(row) * step.pitch + own;
    const auto maximum = [](float a, float b) { return fmaxf(a, b); };
    float tops[STEPS];
    if (ASKED == EVERYTHING) {
        if (is_raw) {
#pragma unroll
            for (int i = 0; i < STEPS; i++) tops[i] = largest(x[i]);
            const float raw = folded(tops, lane, maximum);
            if (writes) step.raw_tops[place_of] = raw;
        }
        uint32_t which = 0;
        if (adjustment.touched != nullptr) {
#pragma unroll
            for (int i = 0; i < STEPS; i++) {
                const uint32_t token = (first + 2 * i) * BLOCK + 4 * lane;
                if (token < vocabulary) which |= place.touched(adjustment.touched, token) << 4 * i;
            }
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
            v = place.edited(token, v, place.sequence->edits);
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
        if (ASKED != MAXIMA && token < vocabulary) adjustment.apply_masks(x[i], token);
        tops[i] = largest(x[i]);
    }
    if (ASKED != MAXIMA && scale != 0.0f) {
        float all = tops[0];
#pragma unroll
        for (int i = 1; i < STEPS; i++) all = fmaxf(all, tops[i]);
        // Nothing alive: everything is -inf, and 2^NaN must not be asked for.
        const float reference = fmaxf(largest_of_warp(all), -3.402823466e+38f);
        float sums[STEPS];
#pragma unroll
        for (int i = 0; i < STEPS; i++) {
            const float4 v = x[i];
            sums[i] = power_of((v.x - reference) * scale) + power_of((v.y - reference) * scale) + power_of((v.z - reference) * scale) + power_of((v.w - reference) * scale);
        }
        const float sum = folded(sums, lane, [](float a, float b) { return a + b; });
        if (writes) step.sums[place_of] = sum;
        if (lane == 0 && first < step.pitch) step.references[uint64_t(row) * step.pitch + group] = reference;
    }
    const float top = folded(tops, lane, maximum);
    if (writes) step.peaks[place_of] = top;
}
