// EPSILON, ETA and TOP_A: a lowest probability (crates/onedraw/src/stages/truncate/cutoff.rs).
//
// The naive loop, with y = (x - x_max) / T, Z = the sum of the weights as a multiple of the best token's, and the entropy
// of what is left:
//
//     EPSILON    bar = ln(epsilon) + ln(Z)
//     ETA        bar = min(ln(eta), 0.5 * ln(eta) - entropy) + ln(Z)
//     TOP_A      bar = ln(a) - ln(Z)
//     keep the tokens with y >= min(bar, 0)
//
// What this code does differently: y >= bar holds for a run of logits that begins with the best, so the lowest logit of
// which it holds is searched (`lowest_where`), and no token is looked at.
//
// Why this is exact: the sums are sums of integers, and what follows from them is computed in f64 by the CPU's
// operations, in its order.
#pragma once

#include "search.cuh"

// The last token that EPSILON, ETA or TOP_A keeps. `bar` is as `Cutoff::bar` computes it.
template <typename Draw>
__device__ __noinline__ Key cut_cutoff(Draw& draw, const Stage& stage) {
    const float top = draw.x_max;
    const double factor = stage.inverse;
    const Gauge all = spread(draw, stage.scale, stage.kind == ETA);
    const double ln_mass = ln(relative(all.mass)), e = stage.number;
    double bar = stage.kind == TOP_A ? e - ln_mass : e + ln_mass;
    if (stage.kind == ETA) {
        const double entropy = ln_mass + LN_2 * (double(all.surprises) / double(all.mass)), other = 0.5 * e - entropy;
        bar = (e < other ? e : other) + ln_mass;
    }
    bar = bar < 0.0 ? bar : 0.0;
    const float lowest_kept = lowest_where(top, [=](float x) { return (double(x) - double(top)) * factor >= bar; });
    // Where everything stays, the row is still whole, and its sums still hold.
    if (draw.whole.lowest != 0 && draw.is_whole() && descending(lowest_kept) >= draw.whole.lowest) return draw.last;
    return last_of(lowest_kept <= top ? lowest_kept : top);
}
