// Reading and summing rows with many thread blocks.
#pragma once

#include "packed.cuh"
#include "record.cuh"

// Threads of such a kernel. The second side of its grid counts rows, the first the parts of a row.
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

// Goes over the thread block's part of a row: calls `each(x, token)` for sixteen bytes of logits at a time, the first
// of which is `token`. Past the row they are -inf. The reads of the next WEIGH_TOKENS are under way meanwhile;
// `begin()` is called once the first are.
template <typename T, bool ALIGNED, typename Begin, typename Each>
__device__ __forceinline__ void over_part(const T* logits, uint32_t vocabulary, Begin begin, Each each) {
    constexpr uint32_t AT_ONCE = 16 / PACKED<T>, STRETCH = PACKED<T> * SUM_THREADS, STEP = AT_ONCE * STRETCH;
    static_assert(STEP == WEIGH_TOKENS, "the host counts in these");
    const uint32_t steps = (vocabulary + STEP - 1) / STEP, first = uint32_t(uint64_t(blockIdx.x) * steps / gridDim.x), end = uint32_t(uint64_t(blockIdx.x + 1) * steps / gridDim.x);
    const auto token_of = [](uint32_t at, uint32_t i) { return at * STEP + i * STRETCH + PACKED<T> * threadIdx.x; };
    const auto fetch = [&](uint4 (&x)[AT_ONCE], uint32_t at) {
#pragma unroll
        for (uint32_t i = 0; i < AT_ONCE; i++) {
            const uint32_t token = token_of(at, i);
            x[i] = ALIGNED && token + PACKED<T> <= vocabulary ? sixteen_once(logits + token) : gathered(logits, token, vocabulary);
        }
    };
    uint4 x[AT_ONCE], ahead[AT_ONCE];
    if (first < end) fetch(ahead, first);
    begin();
#pragma unroll 1
    for (uint32_t at = first; at < end; at++) {
#pragma unroll
        for (uint32_t i = 0; i < AT_ONCE; i++) x[i] = ahead[i];
        if (at + 1 < end) fetch(ahead, at + 1);
#pragma unroll
        for (uint32_t i = 0; i < AT_ONCE; i++) each(x[i], token_of(at, i));
    }
}
