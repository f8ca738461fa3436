// TYPICAL: the tokens whose surprise is nearest to the mean (crates/onedraw/src/stages/truncate/typical.rs).
//
// The naive loop, with y = (x - x_max) / T:
//
//     mean = -(sum of weight * surprise) / (sum of weights), in nats
//     distance[token] = |y - mean|, rounded to f32
//     sort the tokens by their distance; sum their weights until they reach the share p of the total
//     farthest = the distance of the last one; keep the tokens with distance <= farthest
//
// What this code does differently:
//
// 1. Distances are f32 numbers of 31 bits. The one in which the last unit of the share lies is selected in three passes
//    of 11, 10 and 10 bits.
// 2. The kept tokens are those between two logits, which are searched (`lowest_where`): tokens above the one are too likely
//    and tokens below the other not likely enough.
// 3. Where the first tokens go, `above` says so, and x_max is found anew.
//
// Why this is exact: bits of positive floats are in order, and bins are sums of integers (1). The distance grows with the
// distance from the mean on either side, also after rounding, so what is kept on a side is a run of logits (2).
#pragma once

#include "search.cuh"

// The last token that TYPICAL keeps of those up to `last`. It may lower `above` and x_max.
template <typename Draw>
__device__ __noinline__ Key cut_typical(Draw& draw, const Stage& stage, Key last) {
    const Softmax softmax = {draw.x_max, stage.scale};
    const float top = draw.x_max;
    const double factor = stage.inverse;
    const Gauge all = spread(draw, stage.scale, true);
    const double mean = -(LN_2 * (double(all.surprises) / double(all.mass)));
    const auto scaled = [=](float x) { return (double(x) - double(top)) * factor; };
    const auto distance = [=](float x) { return float(fabs(scaled(x) - mean)); };
    // The distance of the token in which the last unit of the share lies, nearest tokens first.
    const unsigned __int128 product = (unsigned __int128)stage.share * all.mass + ((1ull << 53) - 1);
    uint64_t unit = uint64_t(product >> 53);
    unit = unit > 0 ? unit - 1 : 0;
    uint32_t chosen = 0;
    bool is_found = true;
#pragma unroll 1
    for (uint32_t digit = 0; digit < 3 && is_found; digit++) {
        const uint32_t shift = digit == 0 ? 21 : digit == 1 ? 10 : 0, bins = digit == 2 ? 1024 : 2048;
        const uint32_t bin = crossed(draw, unit, last, [&](float x, uint32_t& bin) {
            const uint32_t beyond = __float_as_uint(distance(x)) - chosen;
            bin = __float_as_uint(distance(x)) >= chosen && beyond >> shift < bins ? beyond >> shift : LIST_CAPACITY;
            return weight(softmax, x);
        });
        is_found = bin < LIST_CAPACITY;
        if (is_found) {
            chosen += bin << shift;
            unit = draw.found_number;
        }
        __syncthreads();
    }
    const float farthest = is_found ? __uint_as_float(chosen) : positive_infinity();
    const float too_likely = lowest_where(top, [=](float x) { return scaled(x) > mean && distance(x) > farthest; });
    const float least_likely = lowest_where(top, [=](float x) { return scaled(x) > mean || distance(x) <= farthest; });
    const Key end = least_likely <= top ? last_of(least_likely) : last;
    if (too_likely <= top) {
        // The first tokens go: another one is the best now.
        float best_left = negative_infinity();
        over(draw, collect(draw, negative_infinity()), [&](float x, uint32_t token) {
            if (x < too_likely && draw.passes(x, token)) best_left = fmaxf(best_left, x);
        });
        best_left = draw.largest_of_all(best_left);
        __syncthreads();
        if (threadIdx.x == 0) {
            draw.above = too_likely;
            draw.x_max = best_left + 0.0f;
        }
        __syncthreads();
    }
    return end < last ? end : last;
}
