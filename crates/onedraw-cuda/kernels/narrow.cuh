// A later segment of the chain: what the operations so far left becomes a row of its own, and the edits of the segment are made
// in it. Part of draw.cuh.
//
// The naive loop (crates/onedraw/src/engine/draw.rs: enter):
//
//     for each token: logit[token] = kept ? logit[token] / T, rounded to f32 : -inf
//     for each edit of the segment: for each token: logit[token] = edit(token, logit[token])
//     T = 1; nothing is cut
//
// What this code does differently: the new row lies on the "desk", memory of the row's own, and is made token by token, each
// through all edits. Its peaks are found anew. From here on the row is bare: it has no masks and no edits.
//
// Why this is exact: an edit of a token depends on this token's logit alone (edit.cuh).
#pragma once

#include "draw.cuh"

template <typename T, Rows ROWS>
__device__ __noinline__ uint32_t Draw<T, ROWS>::narrow(const Stage& stage) {
    float* const row_desk = step_copy.desks + uint64_t(row) * pitch * BLOCK;
    const double factor = sequence.is_dynamic ? heat_inverse : stage.inverse;
    const uint32_t first = stage.k, end = uint32_t(stage.share), lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    // Bit i: something is alive after the first i edits of the segment.
    uint32_t alive = 0;
#pragma unroll 1
    for (uint32_t token = threadIdx.x; token < pitch * BLOCK; token += DRAW_THREADS) {
        const float x = at(token);
        float y = negative_infinity();
        if (x > negative_infinity() && key_of(x, token) <= last && passes(x, token)) {
            y = saturated(float(double(x) * factor));
            alive |= 1;
            const bool is_touched = adjustment.touched != nullptr && (place.touched(adjustment.word(token), token & ~3u) >> token % 4 & 1);
            const uint2 counted = is_touched ? place.counted(token) : make_uint2(0, 0);
#pragma unroll 1
            for (uint32_t i = first; i < end && y > negative_infinity(); i++) {
                const uint32_t edit = sequence.edit[i];
                if (edit == ALLOWED) y = allows_late(token) ? y : negative_infinity();
                else if (is_touched) y = place.edited_by(edit, token, y, counted);
                if (y > negative_infinity()) alive |= 1u << (i - first + 1);
            }
        }
        row_desk[token] = y;
    }
    alive = __reduce_or_sync(ALL_LANES, alive);
    __syncthreads();
    if (lane == 0) tallies[0][warp] = alive;
    __syncthreads();
    alive = __reduce_or_sync(ALL_LANES, tallies[0][lane & (WARPS - 1)]);
    if (!(alive >> (end - first) & 1)) return first + __ffs(~alive) - 2;
    if (threadIdx.x == 0) {
        desk = row_desk;
        is_bare = true;
        is_smoothed = false;
        head = 0;
        last = key_end();
        above = positive_infinity();
        lowest = negative_infinity();
        heat = heat_inverse = 1.0;
        if (sequence.is_dynamic) {
            sequence.inverse = 1.0;
            sequence.scale = LOG2_E_F32;
        }
    }
    __syncthreads();
    find_peaks();
    return NO_EDIT;
}

template <typename T, Rows ROWS>
__device__ __noinline__ void Draw<T, ROWS>::find_peaks() {
    const uint32_t lane = threadIdx.x & 31;
    float top = negative_infinity();
#pragma unroll 1
    for (uint32_t block = threadIdx.x >> 5; block < pitch; block += WARPS) {
        const float largest_here = largest_of_warp(fmaxf(desk[block * BLOCK + lane], desk[block * BLOCK + 32 + lane]));
        if (lane == 0) highest()[block] = largest_here;
        top = fmaxf(top, largest_here);
    }
    top = largest_of_all(top);
    if (threadIdx.x == 0) x_max = top + 0.0f;
    __syncthreads();
}
