// Smoothing (crates/onedraw/src/stages/edit/smoothing.rs). Part of draw.cuh.
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

#include "draw.cuh"

template <typename T, Rows ROWS>
__device__ __noinline__ void Draw<T, ROWS>::smooth(Bend bend, bool is_on_desk) {
    if (threadIdx.x == 0) {
        bend_top = x_max;
        is_smoothed = !is_on_desk;
    }
    const float top = x_max;
    __syncthreads();
#pragma unroll 1
    for (uint32_t block = threadIdx.x; block < padded_blocks; block += DRAW_THREADS) highest()[block] = bend.of(highest()[block], top);
#pragma unroll 1
    for (uint32_t token = threadIdx.x; is_on_desk && token < pitch * BLOCK; token += DRAW_THREADS) desk[token] = bend.of(desk[token], top);
    __syncthreads();
}
