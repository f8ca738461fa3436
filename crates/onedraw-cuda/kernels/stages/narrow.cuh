// A later segment of the chain: what the operations so far left becomes a row of its own, and the edits of the segment are made
// in it.
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
// Why this is exact: an edit of a token depends on this token's logit alone (edit/edit.cuh).
#pragma once

#include "../draw/draw.cuh"
#include "../number/warp.cuh"

// Whether the list of allowed ids and the mask leave a token, in a later segment. Any thread may call it.
template <typename Draw>
__device__ __forceinline__ bool allows_late(const Draw& draw, uint32_t token) {
    return (draw.sequence.late_allowed == nullptr || has_bit(draw.sequence.late_allowed, token)) && (draw.late_mask == nullptr || has_bit(draw.late_mask, token)) && draw.place.allows(token);
}

// Finds the largest logits of the desk.
template <typename Draw>
__device__ __noinline__ void find_peaks(Draw& draw) {
    const uint32_t lane = threadIdx.x & 31;
    float top = negative_infinity();
#pragma unroll 1
    for (uint32_t block = threadIdx.x >> 5; block < draw.pitch; block += WARPS) {
        const float largest_here = largest_of_warp(fmaxf(draw.desk[block * BLOCK + lane], draw.desk[block * BLOCK + 32 + lane]));
        if (lane == 0) draw.highest()[block] = largest_here;
        top = fmaxf(top, largest_here);
    }
    top = draw.largest_of_all(top);
    if (threadIdx.x == 0) draw.x_max = top + 0.0f;
    __syncthreads();
}

// Begins a segment. Returns the kind of the edit that removed the last token, NO_EDIT if some are left.
template <typename Draw>
__device__ __noinline__ uint32_t narrow(Draw& draw, const Stage& stage) {
    float* const row_desk = draw.step_copy.desks + uint64_t(draw.row) * draw.pitch * BLOCK;
    const double factor = draw.sequence.is_dynamic ? draw.heat_inverse : stage.inverse;
    const uint32_t first = stage.k, end = uint32_t(stage.share);
    // Where the edits of the segment end for the token that lasts longest: after the one that removed it, or behind all.
    uint32_t reached = 0;
#pragma unroll 1
    for (uint32_t token = threadIdx.x; token < draw.pitch * BLOCK; token += DRAW_THREADS) {
        const float x = draw.at(token);
        float y = negative_infinity();
        if (x > negative_infinity() && key_of(x, token) <= draw.last && draw.passes(x, token)) {
            y = saturated(float(double(x) * factor));
            const bool is_touched = draw.adjustment.touched != nullptr && (draw.place.touched(draw.adjustment.word(token), token & ~3u) >> token % 4 & 1);
            const uint2 counted = is_touched ? draw.place.counted(token) : make_uint2(0, 0);
            uint32_t i = first;
#pragma unroll 1
            for (; i < end && y > negative_infinity(); i++) {
                const uint32_t edit = draw.sequence.edit(i);
                if (edit == ALLOWED) y = allows_late(draw, token) ? y : negative_infinity();
                else if (is_touched) y = draw.place.edited_by(edit, token, y, counted);
            }
            reached = max(reached, y > negative_infinity() ? end + 1 : i);
        }
        row_desk[token] = y;
    }
    reached = uint32_t(draw.largest_key(reached));
    if (reached <= end) return draw.sequence.edit(reached - 1);
    if (threadIdx.x == 0) {
        draw.desk = row_desk;
        draw.is_bare = true;
        draw.is_smoothed = false;
        draw.head = 0;
        draw.last = key_end();
        draw.above = positive_infinity();
        draw.lowest = negative_infinity();
        draw.heat = draw.heat_inverse = 1.0;
        if (draw.sequence.is_dynamic) {
            draw.sequence.inverse = 1.0;
            draw.sequence.scale = LOG2_E_F32;
        }
    }
    __syncthreads();
    find_peaks(draw);
    return NO_EDIT;
}
