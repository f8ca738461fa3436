// Sums and maxima over all threads of a draw's thread block.
//
// The naive loop:
//
//     for each thread: total = total + its number, or the larger of the two
//
// What this code does differently: each warp combines the numbers of its lanes by shuffles and writes one number
// into shared memory; then every warp combines the numbers of all warps, so that each thread has the result.
//
// Why this is exact: the numbers are integers, or they are compared: the order does not matter. Of two scores that
// are equal, the lower id wins, whoever meets whom.
//
// All threads of the thread block come here together.
#pragma once

#include "../number/warp.cuh"
#include "limits.cuh"

__device__ __forceinline__ Finalist nobody() { return {-__longlong_as_double(0x7ff0000000000000ll), 0xffffffffu, negative_infinity()}; }

// The best of a warp: the higher score, of equals the lower id.
__device__ __noinline__ Finalist best_of_warp(Finalist own) {
#pragma unroll 1
    for (int offset = 16; offset > 0; offset >>= 1) {
        const double score = __shfl_xor_sync(ALL_LANES, own.score, offset);
        const uint32_t token = __shfl_xor_sync(ALL_LANES, own.token, offset);
        const float logit = __shfl_xor_sync(ALL_LANES, own.logit, offset);
        if (score > own.score || (score == own.score && token < own.token)) own = {score, token, logit};
    }
    return own;
}

// The shared memory for that. The functions of a draw use it, too, where they combine numbers in ways of their own.
struct Threads {
    // Results of single warps, for all.
    uint32_t tallies[2][WARPS];
    Census parts[WARPS];
    Finalist finalists[WARPS];
    float tops[WARPS];

    // Two sums over all threads, which each thread gets.
    __device__ __noinline__ Census sum(uint64_t count, uint64_t mass) {
        const uint32_t lane = threadIdx.x & 31;
#pragma unroll 1
        for (int turn = 0; turn < 2; turn++) {
#pragma unroll
            for (int offset = 16; offset > 0; offset >>= 1) {
                count += __shfl_xor_sync(ALL_LANES, count, offset);
                mass += __shfl_xor_sync(ALL_LANES, mass, offset);
            }
            if (turn == 1) break;
            __syncthreads();
            if (lane == 0) parts[threadIdx.x >> 5] = {count, mass};
            __syncthreads();
            count = lane < WARPS ? parts[lane].count : 0;
            mass = lane < WARPS ? parts[lane].mass : 0;
        }
        return {count, mass};
    }

    // The best of all threads.
    __device__ __noinline__ Finalist best(Finalist own) {
        const uint32_t lane = threadIdx.x & 31;
        own = best_of_warp(own);
        __syncthreads();
        if (lane == 0) finalists[threadIdx.x >> 5] = own;
        __syncthreads();
        return best_of_warp(finalists[lane & (WARPS - 1)]);
    }

    // The largest of all threads' numbers.
    __device__ __forceinline__ float largest_of_all(float x) {
        x = largest_of_warp(x);
        __syncthreads();
        if ((threadIdx.x & 31) == 0) tops[threadIdx.x >> 5] = x;
        __syncthreads();
        return largest_of_warp(tops[threadIdx.x & (WARPS - 1)]);
    }

    // The largest of all threads' keys.
    __device__ __noinline__ Key largest_key(Key own) {
#pragma unroll
        for (int offset = 16; offset > 0; offset >>= 1) {
            const Key other = __shfl_xor_sync(ALL_LANES, own, offset);
            own = other > own ? other : own;
        }
        __syncthreads();
        if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5].mass = own;
        __syncthreads();
        for (uint32_t i = 0; i < WARPS; i++) own = parts[i].mass > own ? parts[i].mass : own;
        return own;
    }

    // Two sums over all threads, in 32 bits.
    __device__ __forceinline__ uint2 tallied(uint2 own) {
        const uint32_t lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
        own = make_uint2(__reduce_add_sync(ALL_LANES, own.x), __reduce_add_sync(ALL_LANES, own.y));
        __syncthreads();
        if (lane < 2) tallies[lane][warp] = lane == 0 ? own.x : own.y;
        __syncthreads();
        const bool is_one = lane < WARPS;
        return make_uint2(__reduce_add_sync(ALL_LANES, is_one ? tallies[0][lane & (WARPS - 1)] : 0), __reduce_add_sync(ALL_LANES, is_one ? tallies[1][lane & (WARPS - 1)] : 0));
    }

    // The sum over all threads of numbers below 2^45. A sum of 32-bit numbers over a warp is one instruction,
    // so the numbers are summed in two halves of 22 and 23 bits: 32 of these stay below 2^32.
    __device__ __forceinline__ uint64_t amount(uint64_t own) {
        constexpr uint32_t HALF = 22;
        const uint32_t lane = threadIdx.x & 31;
        own = (uint64_t(__reduce_add_sync(ALL_LANES, uint32_t(own >> HALF))) << HALF) + __reduce_add_sync(ALL_LANES, uint32_t(own) & ((1u << HALF) - 1));
        __syncthreads();
        if (lane == 0) parts[threadIdx.x >> 5].mass = own;
        __syncthreads();
        own = lane < WARPS ? parts[lane].mass : 0;
        return (uint64_t(__reduce_add_sync(ALL_LANES, uint32_t(own >> HALF))) << HALF) + __reduce_add_sync(ALL_LANES, uint32_t(own) & ((1u << HALF) - 1));
    }
};
