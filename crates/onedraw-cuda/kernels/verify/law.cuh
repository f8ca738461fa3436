// The law of a row: the distribution that its token is drawn from, for drafts that are judged by it (judge.cuh).
//
// The naive loop (crates/onedraw/src/decode/speculate/law.rs):
//
//     for each kept token: p[token] = exp((x - x_max) / T - ln(Z)), Z the mass of what is left
//     sum = the p of each block of 64 ids, added in the order of ids; then the blocks in their order
//     for each kept token: p[token] /= sum
//
// What this code does differently:
//
// 1. A law lies here as one number for every token, 0 where it has none; on the CPU it is a list of tokens.
// 2. A sum over a law is taken by all threads: each sums one block of 64 tokens, in the order of ids, and one
//    thread then adds the blocks in their order.
//
// Why this is exact: f64 sums depend on their order, and this is the CPU's. Adding 0 changes no sum, so the dense law
// has the sums of the sparse one.
#pragma once

#include "../draw/blocks.cuh"

// Judges are launched with the threads of a draw.
constexpr uint32_t JUDGE_THREADS = DRAW_THREADS;

// The sum of `value(token)` over all tokens, which every thread gets. `sums` (one number for each thread) and
// `all` are shared memory of the caller.
template <typename Value>
__device__ __forceinline__ double total_of(uint32_t vocabulary, double* sums, double& all, Value value) {
    const uint32_t blocks = (vocabulary + BLOCK - 1) / BLOCK;
    double so_far = 0.0;
#pragma unroll 1
    for (uint32_t begin = 0; begin < blocks; begin += JUDGE_THREADS) {
        const uint32_t first = (begin + threadIdx.x) * BLOCK, end = min(first + BLOCK, vocabulary);
        double sum = 0.0;
#pragma unroll 1
        for (uint32_t token = first; token < end; token++) sum += value(token);
        // By now the sums before have been added, and every thread has read the last total.
        __syncthreads();
        sums[threadIdx.x] = sum;
        __syncthreads();
        if (threadIdx.x == 0) {
            const uint32_t count = min(blocks - begin, JUDGE_THREADS);
#pragma unroll 1
            for (uint32_t i = 0; i < count; i++) so_far += sums[i];
            all = so_far;
        }
    }
    __syncthreads();
    return all;
}

// Writes the law of the tokens up to `last` that pass: a probability for every token, 0 for those that are not kept.
template <typename Draw>
__device__ __noinline__ void write_law(Draw& draw, double* law, Key last) {
    static_assert(sizeof(draw.keys) >= sizeof(double) * (JUDGE_THREADS + 1), "the list is the memory of the sums");
    const double ln_total = ln(relative(census(draw, last, draw.sequence.scale).mass)), top = double(draw.x_max), inverse = draw.sequence.inverse;
#pragma unroll 1
    for (uint32_t token = threadIdx.x; token < draw.vocabulary; token += DRAW_THREADS) {
        const float x = draw.at(token);
        law[token] = key_of(x, token) <= last && draw.passes(x, token) ? exponential_of((double(x) - top) * inverse - ln_total) : 0.0;
    }
    __syncthreads();
    double* const sums = reinterpret_cast<double*>(draw.keys);
    const double all = total_of(draw.vocabulary, sums, sums[JUDGE_THREADS], [law](uint32_t token) { return law[token]; });
#pragma unroll 1
    for (uint32_t token = threadIdx.x; token < draw.vocabulary; token += DRAW_THREADS) law[token] /= all;
}
