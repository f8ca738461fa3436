// Sums over whole rows, before these are drawn: for chains whose first operation needs them.
//
// The naive loop, over the tokens that masks and edits leave:
//
//     x_max = the largest logit
//     mass += floor(2^((x - x_max) * scale) * 2^43), surprises += the same times its surprise, tokens += 1
//     lowest = min(lowest, x)
//
// What this code does differently: many thread blocks take parts of a row and add up by atomics, before the one
// thread block that draws the row begins. The first pass has found x_max, so this is the second read of the row.
//
// Why this is exact: the sums are sums of integers, so it does not matter who adds what, and when; nor does it for a minimum.
#pragma once

#include "../edit/bend.cuh"
#include "../number/warp.cuh"
#include "sum.cuh"

// Adds some steps of a row to its gauge. The draw reads it.
template <typename T, bool ALIGNED>
__device__ __forceinline__ void gauge_part(const Step& step, uint32_t row, uint32_t first, uint32_t end) {
    const uint32_t vocabulary = step.vocabulary;
    const Task task = step.tasks[row];
    if (task.gauge == NO_GAUGE) return;
    const Sequence& sequence = step.sequences[task.slot];
    const bool is_bent = sequence.is_bent, is_masked = task.mask != nullptr || task.allowed != nullptr;
    const T* const logits = static_cast<const T*>(step.logits) + int64_t(row) * step.stride;
    Softmax softmax = {0.0f, task.gauge_scale};
    const auto begin = [&] { softmax.x_max = logit_of_summit(__ldcg(step.summits + row * SUMMIT_PITCH)); };
    uint64_t mass = 0, surprises = 0;
    uint32_t tokens = 0;
    float lowest = positive_infinity();
    const auto add_low = [&](float x) { lowest = fminf(lowest, x > negative_infinity() ? x : positive_infinity()); };
    const auto add_all = [&](float x) {
        const Weighed own = weighed_below(softmax, x);
        mass += own.weight;
        surprises += own.surprise;
        tokens += x > negative_infinity();
    };
    const auto over = [&](auto each) {
        over_steps<T, ALIGNED, SUM_THREADS>(logits, vocabulary, first, end, begin, [&](uint4 x, uint32_t) { over_packed<T>(x, [&](float x, uint32_t) { each(x); }); });
    };
    // Each kind has a loop of its own: what is asked in the loop is asked of every logit.
    if (is_masked || is_bent) {
        const Bend bend = bend_of(sequence);
        over_steps<T, ALIGNED, SUM_THREADS>(logits, vocabulary, first, end, begin, [&](uint4 x, uint32_t token) {
            if (is_masked && token < vocabulary) x = masked<T>(x, ((task.mask != nullptr ? task.mask[token / 32] : ~0u) & (task.allowed != nullptr ? task.allowed[token / 32] : ~0u)) >> token % 32);
            over_packed<T>(x, [&](float x, uint32_t) {
                if (is_bent) x = bend.of(x, softmax.x_max);
                add_all(x);
                add_low(x);
            });
        });
    } else if (task.gauge == MASS_AND_SURPRISES) {
        over(add_all);
    } else if (task.gauge == MASS_AND_LOWEST) {
        over([&](float x) {
            mass += weight_below(softmax, x);
            add_low(x);
        });
    } else {
        over([&](float x) { mass += weight_below(softmax, x); });
    }
    mass = sum_of_block(mass);
    Gauge& gauge = step.gauges[row];
    if (threadIdx.x == 0) atomicAdd(reinterpret_cast<unsigned long long*>(&gauge.mass), mass);
    if (task.gauge == MASS_AND_LOWEST) {
        lowest = -largest_of_warp(-lowest);
        if (threadIdx.x % 32 == 0 && lowest < positive_infinity()) atomicMax(&gauge.lowest, descending(lowest));
    }
    __syncthreads();
    if (task.gauge != MASS_AND_SURPRISES) return;
    surprises = sum_of_block(surprises);
    __syncthreads();
    tokens = uint32_t(sum_of_block(tokens));
    if (threadIdx.x == 0) {
        atomicAdd(reinterpret_cast<unsigned long long*>(&gauge.surprises), surprises);
        atomicAdd(&gauge.tokens, tokens);
    }
    __syncthreads();
}

template <typename T, bool ALIGNED>
__device__ __forceinline__ void gauge_rows(const Step& step) {
    let_the_next_begin();
    wait_for_the_one_before();
    over_share(step, [&](uint32_t row, uint32_t first, uint32_t end) { gauge_part<T, ALIGNED>(step, row, first, end); });
}
