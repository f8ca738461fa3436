// The curve of smoothing (crates/onedraw/src/kernels/bend.rs), operation by operation: in f64, without fused
// multiply-adds, and rounded to f32 once.
#pragma once

#include "edit.cuh"

struct Bend {
    double factor, quadratic, cubic;

    // A logit of a row whose largest logit is `top`. -inf stays -inf.
    __device__ __forceinline__ float of(float x, float top) const {
        if (!(x > negative_infinity())) return x;
        const double best = double(top), d = double(x) - best;
        return saturated(float(best + factor * d * d * (cubic * d - quadratic)));
    }
};

// That of the first segment.
__device__ __forceinline__ Bend bend_of(const Sequence& sequence) { return {sequence.bend_factor, sequence.bend_quadratic, sequence.bend_cubic}; }
