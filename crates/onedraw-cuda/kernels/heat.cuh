// The temperature that the entropy sets (crates/onedraw/src/stages/temperature.rs). Part of draw.cuh.
//
// The naive loop, over the tokens that are left:
//
//     Z = sum of weights, S = sum of weights times their surprise, n = how many there are
//     share = (ln(Z) + S / Z) / ln(n), within 0 and 1; 0 if n is 1
//     T = low + (high - low) * share^exponent
//
// The sums are sums of integers (`spread`); the rest is the CPU's operations in f64.
#pragma once

#include "draw.cuh"

// x^y as exp(y ln x), of numbers that are not negative. (math.rs: power.)
__device__ __forceinline__ double raised_to(double x, double y) { return y == 0.0 ? 1.0 : x == 0.0 ? 0.0 : exponential_of(y * ln(x)); }

template <typename T, Rows ROWS>
__device__ __noinline__ void Draw<T, ROWS>::set_heat(const Stage& stage) {
    constexpr double LOG2_E = 1.44269504088896340735992468100189214, GREEDY_BELOW = 1e-5;
    const Gauge all = spread(float(LOG2_E / heat), true);
    double share = 0.0;
    if (all.tokens > 1) share = (ln(relative(all.mass)) + LN_2 * (double(all.surprises) / double(all.mass))) / ln(double(all.tokens));
    share = share < 0.0 ? 0.0 : share > 1.0 ? 1.0 : share;
    const double low = stage.number, high = __longlong_as_double(stage.share), temperature = low + (high - low) * raised_to(share, stage.inverse);
    __syncthreads();
    if (threadIdx.x == 0) {
        if (temperature < GREEDY_BELOW) {
            sequence.is_greedy = 1;
        } else {
            heat *= temperature;
            heat_inverse *= 1.0 / temperature;
        }
        sequence.inverse = heat_inverse;
        sequence.scale = float(LOG2_E / heat);
    }
    __syncthreads();
}
