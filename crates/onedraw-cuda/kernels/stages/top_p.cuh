// TOP_P: the nucleus (crates/onedraw/src/stages/truncate/top_p.rs).
//
// The naive loop, with the tokens that are left in a sorted list:
//
//     total = sum of the weights; before = 0
//     for each token: keep it if before * 2^53 < share * total; before += its weight
//
// What this code does differently: the last kept token is the one in which the last unit of the share lies, counted
// from 0: ceil(share * total / 2^53) - 1.
//
// 1. Where nothing is removed yet, the first pass has bounds of the total, and the peaks bound how far the nucleus
//    reaches (draw/nucleus.cuh). All tokens within reach are listed and walked through (`listed_nucleus`); if they do
//    not fit, the unit is searched among them (`selected_nucleus`).
// 2. Otherwise the total is summed, and the unit is searched among all tokens.
//
// Why this is exact: masses are sums of integers, and the product has 128 bits. Where a total is known by bounds (1),
// the unit is found for the least and for the most that it can be; if that is not one token, the total is summed.
#pragma once

#include "../draw/few.cuh"
#include "search.cuh"

// The last unit of a mass that lies in the nucleus.
__device__ __forceinline__ uint64_t last_unit(const Stage& stage, uint64_t mass) {
    const unsigned __int128 product = (unsigned __int128)stage.share * mass + ((1ull << 53) - 1);
    const uint64_t units = uint64_t(product >> 53);
    return units > 0 ? units - 1 : 0;
}

// By a list of all tokens that can be in the nucleus, and by the bounds of the total that the first pass has: hardly ever
// do they leave a token open. 0 if they do not fit the list.
template <typename Draw>
__device__ __noinline__ Key listed_nucleus(Draw& draw, const Stage& stage, float reach) {
    const uint32_t listed = gather(draw, reach);
    if (listed > LIST_CAPACITY) return 0;
    sort(draw, listed);
    uint32_t kept = top_p(draw, stage, listed, draw.total.least);
    if (kept != top_p(draw, stage, listed, draw.total.most)) {
        draw.set_total(total_opened(draw, stage.scale));
        kept = top_p(draw, stage, listed, draw.total.least);
    }
    if (kept != top_p(draw, stage, listed, draw.total.most)) {
        const uint64_t mass = spread(draw, stage.scale, false).mass;
        kept = top_p(draw, stage, listed, mass);
    }
    return draw.keys[kept - 1];
}

// By a radix select over the blocks that the nucleus can reach, for a longer one. 0 where the bounds of the total leave it
// open, or what is within reach is less.
template <typename Draw>
__device__ __noinline__ Key selected_nucleus(Draw& draw, const Stage& stage, float reach) {
    const uint64_t least = last_unit(stage, draw.total.least), most = last_unit(stage, draw.total.most);
    // A little lower, for what the subtraction and the product lose, as in `race_all`.
    const Key within = last_of(draw.x_max - reach * (1.0f + 0x1p-20f) - fabsf(draw.x_max) * 0x1p-22f), end = select(draw, stage.scale, least, within < draw.last ? within : draw.last);
    return end != key_end() && most - least <= draw.found_number ? end : 0;
}

// The last token that TOP_P keeps.
template <typename Draw>
__device__ __noinline__ Key cut_nucleus(Draw& draw, const Stage& stage) {
    if (draw.is_whole() && draw.total.most != 0 && stage.scale == draw.sequence.sum_scale) {
        const float reach = reach_of_nucleus(draw, stage);
        if (reach < positive_infinity()) {
            Key end = listed_nucleus(draw, stage, reach);
            if (end == 0) end = selected_nucleus(draw, stage, reach);
            if (end != 0) return end;
        }
    }
    return select(draw, stage.scale, last_unit(stage, spread(draw, stage.scale, false).mass), draw.last);
}
