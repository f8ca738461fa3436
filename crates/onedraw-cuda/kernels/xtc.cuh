// XTC, exclude top choices (crates/onedraw/src/stages/truncate/xtc.rs). Part of draw.cuh.
//
// The naive loop, with the tokens that are left in a sorted list:
//
//     if the coin of this position and stage is not below the probability: nothing happens
//     top choices = the tokens with (x - x_max) / T >= ln(threshold) + ln(Z), Z the mass of what is left
//     remove all top choices but the last and the protected ones
//
// What this code does differently: nothing is sorted. The last of the top choices is the largest key among them, and what
// comes before it is removed (`head`, which `passes` asks). The mass is a sum of integers, and keys are compared, so both
// are exact; the bar is the CPU's in f64.
#pragma once

#include "draw.cuh"

template <typename T, Rows ROWS>
__device__ __noinline__ void Draw<T, ROWS>::remove_top_choices(const Stage& stage) {
    const double coin = (double(words(noise(), COIN, stage.k).x) + 0.5) / 4294967296.0;
    if (!(coin < __longlong_as_double(stage.share))) return;
    const double top = double(x_max), factor = stage.inverse, bar = stage.number + ln(relative(spread(stage.scale, false).mass));
    const float lowest_choice = lowest_where(x_max, [=](float x) { return (double(x) - top) * factor >= bar; });
    if (!(lowest_choice <= x_max)) return;
    const Key end = last_of(lowest_choice);
    const Latest choices = latest(end < last ? end : last);
    if (choices.count < 2) return;
    const Key farthest = choices.key > head ? choices.key : head;
    __syncthreads();
    if (threadIdx.x == 0) head = farthest;
    __syncthreads();
    float best_left = negative_infinity();
    over(collect(logit_of(choices.key)), [&](float x, uint32_t token) {
        if (passes(x, token)) best_left = fmaxf(best_left, x);
    });
    best_left = largest_of_all(best_left);
    __syncthreads();
    if (threadIdx.x == 0) x_max = best_left + 0.0f;
    __syncthreads();
}
