// The curve of a part's masses. A step of opening.cuh (crates/onedraw/src/logits/measure/curve.rs).
//
// The naive loop:
//
//     for each token after the best ones, up to `end`: sums[step of its logit] += its weight
//     for each of 256 points: the number of first steps whose sums do not exceed the point's target
//
// What this code does differently: the sums are added up by atomics, and the points are found by halving in the sums
// up to each step.
//
// Why this is exact: weights are integers, and steps are computed by the operations of the CPU, in its order.
#pragma once

#include "opening.cuh"

static_assert(OPEN_POINTS <= OPEN_THREADS && OPEN_STEPS % OPEN_THREADS == 0, "all threads do as much");

// `part` of `parts` equal parts of a mass, rounded down, without overflow.
__device__ __forceinline__ uint64_t share_of(uint64_t mass, uint64_t part, uint64_t parts) { return mass / parts * part + mass % parts * part / parts; }

// The mass that a point is about (measure/curve.rs: Targets).
template <typename Opening>
__device__ __forceinline__ uint64_t target_of(const Opening& opening, uint32_t point, uint64_t mass) {
    constexpr uint32_t HALF = OPEN_POINTS / 2;
    if (opening.task.focus == 0) return share_of(mass, point, OPEN_POINTS);
    if (point < HALF) return share_of(mass, point, HALF);
    const unsigned __int128 product = (unsigned __int128)opening.task.focus * (mass + opening.listed);
    const uint64_t share = uint64_t(product >> 53), cut = min(share > opening.listed ? share - uint64_t(opening.listed) : 0, mass), around = mass / OPEN_FOCUS;
    return min((cut > around ? cut - around : 0) + share_of(2 * around, point - HALF, HALF), mass);
}

// The curve of the masses of the tokens after the best ones.
template <typename Opening>
__device__ __forceinline__ void draw_curve(Opening& opening) {
    constexpr uint32_t OF_THREAD = OPEN_STEPS / OPEN_THREADS;
    const uint32_t lane = threadIdx.x & 31, warp = threadIdx.x >> 5, first = OF_THREAD * threadIdx.x;
    for (uint32_t i = threadIdx.x; i < OPEN_STEPS; i += OPEN_THREADS) opening.sums[i] = 0;
    __syncthreads();
    const Softmax softmax = {opening.x_max, opening.task.scale};
    const Key last = opening.best[opening.best_count - 1], latest = opening.end;
    // Weights are 0 from 2^-44 on; the rest is room for rounding.
    const float reach = fmaxf(softmax.x_max - 50.0f / softmax.scale, logit_of(latest));
    // Many tokens have the last step, and atomics on one place wait for each other: each thread sums its own.
    uint64_t of_last_step = 0;
    over_reaching<4>(opening, reach, [&](float x, uint32_t token) {
        const Key key = key_of(x, token);
        if (key <= last || key > latest) return;
        const uint64_t own = weight_below(softmax, x);
        const float depth = (softmax.x_max - x) * softmax.scale;
        const uint32_t step = uint32_t(fminf(float(OPEN_STEPS_PER_OCTAVE) * depth, float(OPEN_STEPS - 1)));
        if (step == OPEN_STEPS - 1) of_last_step += own;
        else if (own > 0) atomicAdd(&opening.sums[step], (unsigned long long)own);
    });
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) of_last_step += __shfl_xor_sync(ALL_LANES, of_last_step, offset);
    if (lane == 0 && of_last_step > 0) atomicAdd(&opening.sums[OPEN_STEPS - 1], (unsigned long long)of_last_step);
    __syncthreads();
    // Sums up to each step.
    uint64_t own = 0;
#pragma unroll
    for (uint32_t i = 0; i < OF_THREAD; i++) own += opening.sums[first + i];
    uint64_t upto = own;
#pragma unroll
    for (int offset = 1; offset < 32; offset <<= 1) {
        const uint64_t other = __shfl_up_sync(ALL_LANES, upto, offset);
        if (lane >= offset) upto += other;
    }
    if (lane == 31) opening.of_warps[warp] = upto;
    __syncthreads();
    uint64_t before = upto - own;
#pragma unroll 1
    for (uint32_t i = 0; i < warp; i++) before += opening.of_warps[i];
#pragma unroll 1
    for (uint32_t i = 0; i < OF_THREAD; i++) {
        before += opening.sums[first + i];
        opening.sums[first + i] = before;
    }
    __syncthreads();
    const uint64_t mass = opening.sums[OPEN_STEPS - 1];
    if (threadIdx.x == 0) opening.rest = mass;
    if (threadIdx.x < OPEN_POINTS) {
        const uint64_t target = target_of(opening, threadIdx.x, mass);
        uint32_t low = 0, high = OPEN_STEPS;
#pragma unroll 1
        while (low < high) {
            const uint32_t middle = (low + high) / 2;
            if (opening.sums[middle] <= target) low = middle + 1;
            else high = middle;
        }
        opening.points[threadIdx.x] = uint16_t(low);
    }
    __syncthreads();
}
