// Reading and summing whole rows: by many thread blocks, or by one.
//
// The naive loop:
//
//     for each row: for each token: sum[row] += what the token adds
//
// What this code does differently:
//
// 1. The tokens of all rows, in steps of WEIGH_TOKENS, are shared out evenly over thread blocks (`over_share`), which add
//    their part of a row by atomics.
// 2. Nothing but reads and what a token adds is in the loop over tokens (`over_steps`). What is asked of single logits,
//    whether they lie in the row, is asked in the last step alone; and two sets of registers take turns, so that nothing is
//    copied from one to the other. With these in the loop a logit took 24 instructions (bench/results/2026-11-18-device.md).
//
// Sums of integers do not depend on who adds what.
#pragma once

#include "../number/packed.cuh"
#include "../record/record.cuh"

// Threads of a kernel of many thread blocks.
constexpr uint32_t SUM_THREADS = REPORT_THREADS;

// The sum over a thread block; only the first thread gets it. Between two calls the threads wait for each other.
__device__ __forceinline__ uint64_t sum_of_block(uint64_t own) {
    __shared__ uint64_t parts[SUM_THREADS / 32];
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) own += __shfl_xor_sync(ALL_LANES, own, offset);
    if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = own;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (uint32_t i = 1; i < SUM_THREADS / 32; i++) own += parts[i];
    }
    return own;
}

// Calls `part(row, first, end)` for every row of which the thread block has some steps. The last rows come first: they are
// those that the first pass read last, and that the second cache still holds.
template <typename Part>
__device__ __forceinline__ void over_share(const Step& step, Part part) {
    const uint32_t of_row = (step.vocabulary + WEIGH_TOKENS - 1) / WEIGH_TOKENS, all = of_row * step.rows, each = (all + gridDim.x - 1) / gridDim.x;
    const uint32_t end = min(all, (blockIdx.x + 1) * each);
    uint32_t at = blockIdx.x * each, row = at / of_row, first = at - row * of_row;
#pragma unroll 1
    while (at < end) {
        const uint32_t last = min(of_row, first + end - at);
        part(step.rows - 1 - row, first, last);
        at += last - first;
        row++;
        first = 0;
    }
}

// Goes over the steps from `first` to `end` of a row: calls `each(x, token)` for sixteen bytes of logits at a time, the
// first of which is `token`. Past the row they are -inf. The reads of the next step are under way meanwhile; `begin()` is
// called once the first are.
template <typename T, bool ALIGNED, uint32_t THREADS, typename Begin, typename Each>
__device__ __forceinline__ void over_steps(const T* logits, uint32_t vocabulary, uint32_t first, uint32_t end, Begin begin, Each each) {
    constexpr uint32_t STRETCH = PACKED<T> * THREADS, AT_ONCE = WEIGH_TOKENS / STRETCH;
    // Steps that lie in the row with all of their logits, and are read sixteen bytes at a time.
    const uint32_t whole = ALIGNED ? min(end, vocabulary / WEIGH_TOKENS) : first;
    uint32_t token = first * WEIGH_TOKENS + PACKED<T> * threadIdx.x, left = whole > first ? whole - first : 0;
    const T* at = logits + token;
    uint4 x[AT_ONCE], y[AT_ONCE];
    const auto fetch = [&](uint4 (&x)[AT_ONCE]) {
#pragma unroll
        for (uint32_t i = 0; i < AT_ONCE; i++) x[i] = sixteen_once(at + i * STRETCH);
        at += WEIGH_TOKENS;
    };
    const auto use = [&](uint4 (&x)[AT_ONCE]) {
#pragma unroll
        for (uint32_t i = 0; i < AT_ONCE; i++) each(x[i], token + i * STRETCH);
        token += WEIGH_TOKENS;
    };
    if (left > 0) fetch(x);
    begin();
#pragma unroll 1
    while (left > 0) {
        if (left > 1) fetch(y);
        use(x);
        if (left == 1) break;
        if (left > 2) fetch(x);
        use(y);
        left -= 2;
    }
#pragma unroll 1
    for (uint32_t step = max(first, whole); step < end; step++) {
#pragma unroll 1
        for (uint32_t i = 0; i < AT_ONCE; i++) {
            const uint32_t here = step * WEIGH_TOKENS + i * STRETCH + PACKED<T> * threadIdx.x;
            each(gathered(logits, here, vocabulary), here);
        }
    }
}
