// Sums over whole rows, before these are drawn: for chains whose first operation needs them.
//
// The naive loop, over the tokens that masks and edits leave:
//
//     x_max = the largest logit
//     mass += floor(2^((x - x_max) * scale) * 2^43), surprises += the same times its surprise, tokens += 1
//
// What this code does differently: many thread blocks take parts of a row and add up by atomics, before the one
// thread block that draws the row begins. The first pass has found x_max, so this is the second read of the row.
//
// Why this is exact: the sums are sums of integers, so it does not matter who adds what, and when.
#pragma once

#include "bend.cuh"
#include "skyline.cuh"
#include "sum.cuh"

// Adds the tokens of one part of a row to its gauge. The draw reads it.
template <typename T, bool ALIGNED>
__device__ __forceinline__ void gauge_rows(const Step& step) {
    const uint32_t row = blockIdx.y, vocabulary = step.vocabulary;
    const Task task = step.tasks[row];
    let_the_next_begin();
    wait_for_the_one_before();
    if (task.gauge == NO_GAUGE) return;
    const Sequence& sequence = step.sequences[task.slot];
    const bool is_bent = sequence.is_bent, is_masked = task.mask != nullptr || task.allowed != nullptr, has_surprises = task.gauge == MASS_AND_SURPRISES;
    const Bend bend = bend_of(sequence);
    Softmax softmax = {0.0f, task.gauge_scale};
    uint64_t mass = 0, surprises = 0;
    uint32_t tokens = 0;
    over_part<T, ALIGNED>(
        static_cast<const T*>(step.logits) + int64_t(row) * step.stride, vocabulary, [&] { softmax.x_max = logit_of_summit(__ldcg(step.summits + row * SUMMIT_PITCH)); },
        [&](uint4 x, uint32_t token) {
            if (is_masked && token < vocabulary) x = masked<T>(x, ((task.mask != nullptr ? task.mask[token / 32] : ~0u) & (task.allowed != nullptr ? task.allowed[token / 32] : ~0u)) >> token % 32);
            over_packed<T>(x, [&](float x, uint32_t) {
                if (is_bent) x = bend.of(x, softmax.x_max);
                mass += weight_below(softmax, x);
                if (!has_surprises) return;
                surprises += surprise(softmax, x);
                tokens += x > negative_infinity();
            });
        });
    mass = sum_of_block(mass);
    Gauge& gauge = step.gauges[row];
    if (threadIdx.x == 0) atomicAdd(reinterpret_cast<unsigned long long*>(&gauge.mass), mass);
    if (!has_surprises) return;
    __syncthreads();
    surprises = sum_of_block(surprises);
    __syncthreads();
    tokens = uint32_t(sum_of_block(tokens));
    if (threadIdx.x == 0) {
        atomicAdd(reinterpret_cast<unsigned long long*>(&gauge.surprises), surprises);
        atomicAdd(&gauge.tokens, tokens);
    }
}
