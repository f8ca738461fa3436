// The chain of a row, stage by stage: for chains that are not plain, for reports of what is left, and for laws.
//
// The naive loop (crates/onedraw/src/reference/truncations.rs), with the tokens that are left in a sorted list:
//
//     for each stage of the chain: the list becomes what the stage leaves of it
//
//     MIN_P    keep x - x_max >= T * ln(min_p)
//     TOP_K    keep the first k
//     others   in their own files
//
// What this code does differently: nothing is sorted, and no list is kept. Every truncation is the last key that it
// keeps, and the next one looks at the tokens up to the last key of all (`last`). TYPICAL and XTC remove tokens at
// the top, too, which `above` and `head` say, and then they find x_max anew. A later segment has a row of its own,
// the desk (narrow.cuh).
//
// Why this is exact: but for TYPICAL and XTC, every truncation keeps a prefix of the order, so its last key says all
// about it. MIN_P's lowest logit is found from the f64 numbers of the CPU (`lowest_within`); TOP_K's last key by a select
// (search.cuh).
#pragma once

#include "cutoff.cuh"
#include "heat.cuh"
#include "mirostat.cuh"
#include "narrow.cuh"
#include "sigma.cuh"
#include "smooth.cuh"
#include "top_p.cuh"
#include "typical.cuh"
#include "xtc.cuh"

// Takes all operations of the chain: finds the last token that they keep, `last`. Returns the edit that removed the
// last token, NO_EDIT if some are left.
template <typename Draw>
__device__ __noinline__ uint32_t cut(Draw& draw) {
    // In shared memory rather than in registers, which are scarce here.
    if (threadIdx.x == 0) {
        const uint32_t which = draw.has_mask();
        draw.next_operation = draw.sequence.is_plain ? draw.sequence.stage : draw.sequence.chains[which];
        draw.end_of_chain = draw.next_operation + draw.sequence.chain_lengths[which];
    }
    __syncthreads();
    // Bounds of the total of TOP_P, while work() still holds the references that they are computed from.
    if (draw.sequence.sum_scale != 0.0f && draw.nucleus_reach < 0.0f) draw.set_total(total_mass(draw, draw.sequence.sum_scale));
#pragma unroll 1
    while (draw.next_operation != draw.end_of_chain) {
        if (threadIdx.x < sizeof(Stage) / 8) reinterpret_cast<uint64_t*>(&draw.operation)[threadIdx.x] = reinterpret_cast<const uint64_t*>(draw.next_operation)[threadIdx.x];
        __syncthreads();
        if (threadIdx.x == 0) draw.next_operation++;
        const Stage& stage = draw.operation;
        if (draw.sequence.is_dynamic && stage.kind != HEAT && stage.kind != SMOOTH) {
            if (threadIdx.x == 0) {
                draw.operation.inverse = draw.heat_inverse;
                draw.operation.scale = draw.sequence.scale;
                if (draw.operation.kind == MIN_P) draw.operation.number = draw.heat * __longlong_as_double(draw.operation.share);
            }
            __syncthreads();
        }
        Key end = draw.last;
        switch (stage.kind) {
            case NARROW: {
                if (Draw::rows == STAGED) break;
                const uint32_t emptied = narrow(draw, stage);
                if (emptied != NO_EDIT) return emptied;
                end = draw.last;
                break;
            }
            case SMOOTH: smooth(draw, {stage.number, __longlong_as_double(stage.share), stage.inverse}, true); break;
            case HEAT: set_heat(draw, stage); break;
            case XTC: remove_top_choices(draw, stage); break;
            case MIROSTAT: end = cut_mirostat(draw, stage); break;
            case MIN_P: end = last_of(draw.lowest_of(stage.number)); break;
            case TOP_K: end = select(draw, 0.0f, stage.k - 1, draw.last); break;
            case TOP_P: end = cut_nucleus(draw, stage); break;
            case TYPICAL: end = cut_typical(draw, stage, draw.last); break;
            case TOP_N_SIGMA: end = cut_sigma(draw, stage, draw.last); break;
            default: end = cut_cutoff(draw, stage); break;
        }
        const bool is_earlier = end < draw.last;
        __syncthreads();
        if (threadIdx.x == 0 && is_earlier) draw.last = end;
        __syncthreads();
    }
    return NO_EDIT;
}
