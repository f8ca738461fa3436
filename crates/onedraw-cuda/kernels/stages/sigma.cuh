// TOP_N_SIGMA: logits within n standard deviations of the best (crates/onedraw/src/stages/truncate/top_n_sigma.rs).
//
// The naive loop, with the tokens that are left in a sorted list:
//
//     range = x_max - the last logit; if it is 0, all tokens stay
//     unit = the smallest power of two that is no less than the range
//     for each token: q = floor((x_max - x) / unit * 2^40), tokens += 1, sum += q, squares += q * q
//     sigma = sqrt(tokens * squares - sum * sum) / tokens * unit / 2^40
//     keep x_max - x <= n * sigma
//
// What this code does differently: squares are summed in two parts of 40 bits; and x_max - x <= n * sigma holds for a run
// of logits that begins with the best, so the lowest logit of which it holds is searched (`lowest_where`).
//
// Why this is exact: q and its square are integers, and the spread is computed of them in 128 bits. Multiplying by a power
// of two rounds nothing. The rest is the CPU's operations in f64.
#pragma once

#include "search.cuh"

// The last token that TOP_N_SIGMA keeps of those up to `last`.
template <typename Draw>
__device__ __noinline__ Key cut_sigma(Draw& draw, const Stage& stage, Key last) {
    const double top = double(draw.x_max);
    // The last token up to `last`: its distance is the range.
    const double range = top - double(logit_of(latest(draw, last).key));
    if (range == 0.0) return last;
    const uint64_t bits = __double_as_longlong(range);
    const int exponent = int(bits >> 52) - 1023 + int(bits << 12 != 0);
    const double scale = power_of_two(40 - exponent);
    // q is 2^40 at most. Its square is summed in two parts of 40 bits, which 2^20 tokens cannot overflow.
    uint64_t tokens = 0, whole = 0, squares_low = 0, squares_high = 0;
    over(draw, collect(draw, logit_of(last)), [&](float x, uint32_t token) {
        if (key_of(x, token) > last || !draw.passes(x, token)) return;
        const uint64_t q = __double2ull_rz((top - double(x)) * scale);
        const unsigned __int128 square = (unsigned __int128)q * q;
        tokens++;
        whole += q;
        squares_low += uint64_t(square) & ((1ull << 40) - 1);
        squares_high += uint64_t(square >> 40);
    });
    const Census first = draw.sum(tokens, whole), second = draw.sum(squares_high, squares_low);
    const unsigned __int128 squares = ((unsigned __int128)second.count << 40) + second.mass;
    const unsigned __int128 spread = (unsigned __int128)first.count * squares - (unsigned __int128)first.mass * first.mass;
    const double limit = stage.number * (__dsqrt_rn(nearest(spread)) / double(first.count) * power_of_two(exponent - 40));
    const float lowest_kept = lowest_where(draw.x_max, [=](float x) { return top - double(x) <= limit; });
    return last_of(lowest_kept <= float(top) ? lowest_kept : float(top));
}
