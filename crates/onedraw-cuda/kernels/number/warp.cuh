// Numbers of several threads, folded into one, and floats as integers in the same order: a maximum of integers over a
// warp is one instruction.
#pragma once

#include "number.cuh"

// The largest of four numbers that are not NaN.
__device__ __forceinline__ float largest(float4 v) { return fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)); }

// Folds (by maximum, or by sum) each of N values over THREADS neighbouring threads. The naive loop exchanges
// every value log2(THREADS) times:
//
//     for each value i: for offset = THREADS/2, THREADS/4, ..., 1:
//         value[i] = fold(value[i], value[i] of thread lane ^ offset)
//
// Here a thread gives half of its values away in each exchange and keeps the other half, until it has one
// value, which it folds with the rest of the threads: N - 1 exchanges and log2(THREADS / N) more. Thread
// `lane` ends with the value number `held(lane)`. Maxima come out the same; sums of f32 may differ in their
// last bits, which SUM_ERROR covers.
template <int N, int THREADS, typename Fold>
__device__ __forceinline__ float folded(float (&values)[N], uint32_t lane, Fold fold) {
    int offset = THREADS / 2;
#pragma unroll
    for (int left = N; left > 1; left /= 2) {
        const bool is_upper = lane & offset;
#pragma unroll
        for (int i = 0; i < left / 2; i++) {
            const float given = is_upper ? values[i] : values[i + left / 2], kept = is_upper ? values[i + left / 2] : values[i];
            values[i] = fold(kept, __shfl_xor_sync(ALL_LANES, given, offset));
        }
        offset /= 2;
    }
#pragma unroll
    for (; offset > 0; offset /= 2) values[0] = fold(values[0], __shfl_xor_sync(ALL_LANES, values[0], offset));
    return values[0];
}

// The number of the value that a thread holds after `folded`: N is a power of two, and the number is the
// highest bits of the thread's place among THREADS.
template <int N, int THREADS>
__device__ __forceinline__ uint32_t held(uint32_t lane) {
    return lane % THREADS / (THREADS / N);
}

// A float as an integer in the same order: bits of positive floats are in order already, those of negative
// ones are turned round.
__device__ __forceinline__ int order_of(float x) {
    const int bits = __float_as_int(x);
    return bits ^ (bits >> 31 & 0x7fffffff);
}
__device__ __forceinline__ float number_of(int order) { return __int_as_float(order ^ (order >> 31 & 0x7fffffff)); }
// The largest of a warp's numbers, which are not NaN.
__device__ __forceinline__ float largest_of_warp(float x) { return number_of(__reduce_max_sync(ALL_LANES, order_of(x))); }

// A float as an unsigned integer in the same order, above 0 for every float: 0 means that nothing was
// written.
__device__ __forceinline__ uint32_t summit_of(float x) { return uint32_t(order_of(x)) ^ 0x80000000u; }
__device__ __forceinline__ float logit_of_summit(uint32_t summit) { return summit == 0 ? negative_infinity() : number_of(int(summit ^ 0x80000000u)); }
