// Smoothing (crates/onedraw/src/stages/edit/smoothing.rs).
//
// The naive loop, where x_max is the largest logit after the edits:
//
//     for each token: logit[token] = bent(logit[token])
//
// What this code does differently: in the first segment the row is not written. A logit is bent whenever it is read
// (`smoothed`), and the largest logits of blocks are bent once.
//
// Why this is exact: the curve is computed for one logit by itself, and it is monotone: f64 operations round monotonically,
// and the product of two factors that grow in size with the distance from x_max grows with it. So the largest bent logit of
// a block is the largest logit, bent; and x_max stays what it is.
#pragma once

#include "../draw/draw.cuh"

// Bends the largest logits of the blocks, and the logits of the desk; logits of the first segment from here on.
template <typename Draw>
__device__ __noinline__ void smooth(Draw& draw, Bend bend, bool is_on_desk) {
    if (threadIdx.x == 0) {
        draw.bend_top = draw.x_max;
        draw.is_smoothed = !is_on_desk;
    }
    const float top = draw.x_max;
    __syncthreads();
#pragma unroll 1
    for (uint32_t block = threadIdx.x; block < draw.padded_blocks; block += DRAW_THREADS) draw.highest()[block] = bend.of(draw.highest()[block], top);
#pragma unroll 1
    for (uint32_t token = threadIdx.x; Draw::rows == ANY && is_on_desk && token < draw.pitch * BLOCK; token += DRAW_THREADS) draw.desk[token] = bend.of(draw.desk[token], top);
    __syncthreads();
}
