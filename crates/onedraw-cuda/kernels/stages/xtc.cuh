// XTC, exclude top choices (crates/onedraw/src/stages/truncate/xtc.rs).
//
// The naive loop, with the tokens that are left in a sorted list:
//
//     if the coin of this position and stage is not below the probability: nothing happens
//     top choices = the tokens with (x - x_max) / T >= ln(threshold) + ln(Z), Z the mass of what is left
//     remove all top choices but the last and the protected ones
//
// What this code does differently: nothing is sorted. The last of the top choices is the largest key among them, and what
// comes before it is removed (`head`, which `passes` asks; edit/beheaded.cuh).
//
// Why this is exact: the mass is a sum of integers, and keys are compared; the bar is the CPU's in f64.
#pragma once

#include "search.cuh"

// Removes the top choices, if the coin says so: raises `head`, and lowers x_max.
template <typename Draw>
__device__ __noinline__ void remove_top_choices(Draw& draw, const Stage& stage) {
    const double coin = (double(words(draw.noise(), COIN, stage.k).x) + 0.5) / 4294967296.0;
    if (!(coin < __longlong_as_double(stage.share))) return;
    const double top = double(draw.x_max), factor = stage.inverse, bar = stage.number + ln(relative(spread(draw, stage.scale, false).mass));
    const float lowest_choice = lowest_where(draw.x_max, [=](float x) { return (double(x) - top) * factor >= bar; });
    if (!(lowest_choice <= draw.x_max)) return;
    const Key end = last_of(lowest_choice);
    const Latest choices = latest(draw, end < draw.last ? end : draw.last);
    if (choices.count < 2) return;
    const Key farthest = choices.key > draw.head ? choices.key : draw.head;
    __syncthreads();
    if (threadIdx.x == 0) draw.head = farthest;
    __syncthreads();
    // The last of them is the best that is left, unless a protected one is.
    float best_left = logit_of(choices.key);
    if (draw.sequence.protected_count > 0) over(draw, collect(draw, logit_of(choices.key)), [&](float x, uint32_t token) {
        if (draw.passes(x, token)) best_left = fmaxf(best_left, x);
    });
    if (draw.sequence.protected_count > 0) best_left = draw.largest_of_all(best_left);
    __syncthreads();
    if (threadIdx.x == 0) draw.x_max = best_left + 0.0f;
    __syncthreads();
}
