// HEAT: the temperature that the entropy sets (crates/onedraw/src/stages/temperature.rs).
//
// The naive loop, over the tokens that are left:
//
//     Z = sum of weights, S = sum of weights times their surprise, n = how many there are
//     share = (ln(Z) + S / Z) / ln(n), within 0 and 1; 0 if n is 1
//     T = low + (high - low) * share^exponent
//
// What this code does differently: nothing but where the sums come from (`spread`).
//
// Why this is exact: the sums are sums of integers; the rest is the CPU's operations in f64.
#pragma once

#include "search.cuh"

// x^y as exp(y ln x), of numbers that are not negative. (math.rs: power.)
__device__ __forceinline__ double raised_to(double x, double y) { return y == 0.0 ? 1.0 : x == 0.0 ? 0.0 : exponential_of(y * ln(x)); }

// Sets the temperature by the entropy of what is left.
template <typename Draw>
__device__ __noinline__ void set_heat(Draw& draw, const Stage& stage) {
    constexpr double LOG2_E = 1.44269504088896340735992468100189214, GREEDY_BELOW = 1e-5;
    const Gauge all = spread(draw, float(LOG2_E / draw.heat), true);
    double share = 0.0;
    if (all.tokens > 1) share = (ln(relative(all.mass)) + LN_2 * (double(all.surprises) / double(all.mass))) / ln(double(all.tokens));
    share = share < 0.0 ? 0.0 : share > 1.0 ? 1.0 : share;
    const double low = stage.number, high = __longlong_as_double(stage.share), temperature = low + (high - low) * raised_to(share, stage.inverse);
    __syncthreads();
    if (threadIdx.x == 0) {
        if (temperature < GREEDY_BELOW) {
            draw.sequence.is_greedy = 1;
        } else {
            draw.heat *= temperature;
            draw.heat_inverse *= 1.0 / temperature;
        }
        draw.sequence.inverse = draw.heat_inverse;
        draw.sequence.scale = float(LOG2_E / draw.heat);
    }
    __syncthreads();
}
