// The winner among what MIN_P, TOP_K and TOP_P keep, each of them once at most and in any order: drawn first,
// asked after.
//
// The naive loop:
//
//     kept = all tokens alive, sorted by (logit descending, id ascending)
//     for each stage, in order: kept = the prefix of kept that the stage keeps
//     return the winner of the race among kept
//
// What this code does differently:
//
// 1. Nothing is sorted and no prefix is built where it can be avoided. The winner of a race among *more*
//    tokens is taken and asked whether the stages keep it (`race_all`); if not, the race goes on among the
//    tokens before it.
// 2. Where few tokens can be kept (a small k, or a nucleus that the peaks bound), these are listed without
//    being sorted, each gets its rank and the mass before it by comparing all pairs, and those that all
//    stages keep race at once (`race_few` in few.cuh).
// 3. Otherwise, up to k = LIST_CAPACITY / 2 the first k tokens are listed and sorted (`race_first`).
// 4. MIN_P is a lowest logit, found from x_max alone. TOP_K is a rank. TOP_P is the mass before a token;
//    bounds from the first pass decide first, exact sums only where these leave it open (nucleus.cuh).
//
// Why this is exact:
//
// - All three stages keep a prefix of one order. If the winner among more tokens is kept, it beats all tokens
//   that are kept. If it is not kept, nothing after it in the order is (1).
//   crates/onedraw/src/engine/draw.rs does the same.
// - A list of all tokens nearer to the best logit than some distance is a prefix of the order, ties included
//   (list.cuh), so ranks and masses in it are those of the whole row (2, 3).
// - A token that MIN_P removes comes after every token that it keeps, so it changes neither the rank nor the
//   mass before a kept token; it matters for TOP_P's total only where MIN_P stands before TOP_P
//   (`bottom_before`), and TOP_K likewise (`k_before`).
#pragma once

#include "../stages/search.cuh"
#include "few.cuh"

// With the first k tokens listed and sorted; NO_TOKEN if they do not fit the list.
template <typename Draw>
__device__ __noinline__ uint32_t race_first(Draw& draw) {
    uint32_t listed = list(draw, draw.sequence.k);
    if (listed == 0) return NO_TOKEN;
    draw.set_lowest(draw.bottom_before);
    listed = passing(draw, min(listed, draw.sequence.k));
    if (draw.nucleus() != nullptr) {
        uint64_t seen = 0;
        if (draw.sequence.k_before != draw.sequence.k) seen = census(draw, key_end(), draw.nucleus()->scale).mass;
        listed = top_p(draw, *draw.nucleus(), listed, seen);
    }
    draw.set_lowest(draw.bottom);
    return race_listed(draw, passing(draw, listed)).token;
}

// Races among all tokens that may be kept, until the winner is one that is kept.
template <typename Draw>
__device__ __noinline__ uint32_t race_all(Draw& draw, float reach) {
    Key before_this = (draw.sequence.k != UNLIMITED ? select(draw, 0.0f, draw.sequence.k - 1, key_end()) : key_end()) + 1;
    float low = draw.bottom;
    if (draw.nucleus() != nullptr && draw.is_unbounded()) {
        draw.set_lowest(draw.bottom_before);
        const uint64_t mass = census(draw, draw.sequence.k_before == draw.sequence.k ? before_this - 1 : key_end(), draw.nucleus()->scale).mass;
        draw.set_total({mass, mass});
    } else if (draw.nucleus() != nullptr) {
        // Run the race no farther down than the nucleus can reach, and so reject few winners. A little lower
        // than `reach` says, for what the subtraction and the product lose; tokens that are too low are
        // rejected all the same.
        low = fmaxf(low, draw.x_max - reach * (1.0f + 0x1p-20f) - fabsf(draw.x_max) * 0x1p-22f);
    }
    draw.set_lowest(low);
#pragma unroll 1
    while (true) {
        const Finalist winner = race(draw, before_this);
        if (draw.nucleus() == nullptr) return winner.token;
        __syncthreads();
        if (threadIdx.x == 0) draw.found_key = key_of(winner.logit, winner.token);
        __syncthreads();
        // What MIN_P removes comes after whatever it keeps, so the mass before the winner is the same with
        // and without it.
        if (is_in_nucleus(draw, draw.found_key)) return uint32_t(draw.found_key);
        before_this = draw.found_key;
    }
}

// The winner of the race among what all stages keep.
template <typename Draw>
__device__ __noinline__ uint32_t truncated(Draw& draw) {
    const float infinity = positive_infinity();
    if (draw.sequence.chain_lengths[0] == 0) return race(draw, key_end() + 1).token;
    if (draw.sequence.min_p_place < MAX_STAGES) {
        if (threadIdx.x == 0) {
            draw.bottom = draw.lowest_of(draw.sequence.stage[draw.sequence.min_p_place].number);
            if (draw.sequence.min_p_place < draw.sequence.top_p_place) draw.bottom_before = draw.bottom;
        }
        __syncthreads();
    }
    // Bounds of the total, while work() still holds the references that they are computed from.
    if (draw.sequence.top_p_place == 0) {
        const Bounds mass = total_mass(draw, draw.nucleus()->scale);
        if (threadIdx.x == 0) draw.total = mass;
        __syncthreads();
    }
    // How far below the best logit a token can be and still be kept: +inf where that is not known. With a
    // small k, k blocks have their peaks within the distance, so the first k tokens are. With TOP_P first,
    // the nucleus cannot reach farther than `reach_of_nucleus`. With MIN_P before TOP_P, its lowest logit
    // says it; the factor and the term round up.
    const bool is_short = draw.sequence.k_before <= SHORT_LIST / 2;
    float reach = infinity;
    if (is_short) reach = depth_ends(depth_of(draw, draw.sequence.k_before));
    else if (!draw.is_unbounded()) reach = reach_of_nucleus(draw, *draw.nucleus());
    else if (draw.nucleus() != nullptr && draw.bottom_before > -infinity) reach = (draw.x_max - draw.bottom_before) * (1.0f + 0x1p-22f) + 0x1p-126f;
    // For `cut`, which may come after this. The histogram of depths serves once.
    const bool is_told = is_staged(Draw::rows) && draw.sequence.is_told;
    if (is_told && draw.sequence.top_p_place == 0) {
        __syncthreads();
        if (threadIdx.x == 0) draw.nucleus_reach = reach;
    }
    if (is_short || reach < infinity) {
        const uint32_t listed = gather(draw, reach);
        uint32_t winner = listed <= SHORT_LIST ? race_few(draw, listed) : NO_TOKEN;
        // What is told needs to know of every token whether it is kept, not only of those that could win.
        if (is_told && winner == NO_TOKEN && listed <= SHORT_LIST && draw.total.least != draw.total.most) {
            draw.set_total(total_opened(draw, draw.nucleus()->scale));
            winner = race_few(draw, listed);
        }
        if (winner != NO_TOKEN) return winner;
    }
    if (is_told) return NO_TOKEN;
    const uint32_t winner = draw.sequence.k <= LIST_CAPACITY / 2 ? race_first(draw) : NO_TOKEN;
    return winner != NO_TOKEN ? winner : race_all(draw, reach);
}
