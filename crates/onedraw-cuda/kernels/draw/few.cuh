// What MIN_P, TOP_K and TOP_P keep of listed tokens, and the race among these.
//
// The naive loop, over a list of the first tokens of the order (list.cuh):
//
//     sort it; rank[i] = i, mass before[i] = the sum of the weights of the tokens before it
//     kept = the tokens that each stage keeps, by their logit, their rank and the mass before them
//     return the token of kept with the largest score
//
// What this code does differently:
//
// 1. A list of SHORT_LIST tokens or fewer is not sorted. Each token is compared with all others, by one to
//    eight threads, which gives its rank and the mass before it; the tokens that all stages keep race at
//    once, in f32 first (`race_few`).
// 2. Of longer, sorted lists the masses before tokens are prefix sums over all threads (`top_p`), and the tokens
//    that are kept race in f32 first (`race_listed`).
// 3. The total that TOP_P sees may be known by bounds only. Where they leave a token open that could win, the
//    answer is open (NO_TOKEN).
//
// Why this is exact: the list is a prefix of the order, ties included, so rank, mass before a token and the total up
// to a token are those of the whole row, and they are integers (1, 2). f32 scores decide only where they differ by
// more than two margins, as in race.cuh.
#pragma once

#include "nucleus.cuh"
#include "race.cuh"

// The winner among those of a few listed tokens that the stages keep. The list is unsorted and has every
// token that comes before one of its tokens. NO_TOKEN if the bounds of the total leave it open.
template <typename Draw>
__device__ __noinline__ uint32_t race_few(Draw& draw, uint32_t listed) {
    // Eight threads for each key, or four, two, one.
    const uint32_t shift = listed <= DRAW_THREADS / 8 ? 3 : listed <= DRAW_THREADS / 4 ? 2 : listed <= DRAW_THREADS / 2 ? 1 : 0, each = 1u << shift;
    const uint32_t lane = threadIdx.x & 31, i = threadIdx.x >> shift, part = threadIdx.x & (each - 1);
    const Stage* const nucleus = draw.nucleus();
    uint64_t* const weights = draw.keys + LIST_CAPACITY / 2;
    const Key own = i < listed ? draw.keys[i] : ~0ull;
    const float x = i < listed ? logit_of(own) : negative_infinity();
    const uint64_t own_weight = nucleus != nullptr && i < listed ? weight({draw.x_max, nucleus->scale}, x) : 0;
    if (part == 0) weights[i] = own_weight;
    if (threadIdx.x == 0) {
        draw.lead = order_of(negative_infinity());
        draw.count = 0;
    }
    __syncthreads();
    uint32_t rank = 0;
    uint64_t mass = 0;
#pragma unroll 8
    for (uint32_t j = part; j < listed; j += each) {
        const bool is_earlier = draw.keys[j] < own;
        rank += is_earlier;
        mass += is_earlier ? weights[j] : 0;
    }
    for (uint32_t offset = 1; offset < each; offset *= 2) {
        rank += __shfl_xor_sync(ALL_LANES, rank, offset);
        mass += __shfl_xor_sync(ALL_LANES, mass, offset);
    }
    bool is_kept = i < listed && rank < draw.sequence.k_before && x >= draw.bottom_before;
    // The mass that TOP_P sees, unless the first pass knows it: the tokens that earlier stages keep, each
    // once.
    uint64_t least = draw.total.least, most = draw.total.most;
    const bool is_counted = nucleus != nullptr && most == 0;
    if (is_counted) {
        uint64_t seen = is_kept && part == 0 ? own_weight : 0;
#pragma unroll
        for (int offset = 16; offset > 0; offset >>= 1) seen += __shfl_xor_sync(ALL_LANES, seen, offset);
        if (lane == 0) draw.parts[threadIdx.x >> 5].mass = seen;
    }
    const uint32_t token = uint32_t(own);
    const float gain = i < listed ? draw.gains()[token / BLOCK] : 0.0f;
    float score = rough_score(draw, token, x, gain);
    if (is_counted) {
        __syncthreads();
#pragma unroll
        for (uint32_t w = 0; w < WARPS; w++) most += draw.parts[w].mass;
        least = most;
    }
    is_kept = is_kept && rank < draw.sequence.k && x >= draw.bottom && (nucleus == nullptr || is_below(mass, nucleus->share, most));
    const bool is_open = is_kept && nucleus != nullptr && least != most && !is_below(mass, nucleus->share, least);
    if (is_staged(Draw::rows) && draw.sequence.is_told) {
        // All stages keep a prefix of the order: the last kept token says all.
        if (__syncthreads_or(is_open)) return NO_TOKEN;
        const Key end = draw.largest_key(is_kept ? own : 0);
        if (threadIdx.x == 0) {
            draw.last = end;
            draw.told_list = listed;
        }
    }
    score = is_kept ? score : negative_infinity();
    const float high = largest_of_warp(score);
    if (lane == 0 && high > negative_infinity()) atomicMax(&draw.lead, order_of(high));
    __syncthreads();
    if (is_kept && part == 0 && score + 2 * MARGIN >= number_of(draw.lead)) {
        draw.keys[LIST_CAPACITY / 2 + atomicAdd(&draw.count, 1)] = own;
        // The bounds of the total leave it open whether this token is kept: the whole answer is open.
        if (is_open) draw.lead = order_of(positive_infinity());
    }
    __syncthreads();
    if (number_of(draw.lead) == positive_infinity()) return NO_TOKEN;
    const Key* const close = draw.keys + LIST_CAPACITY / 2;
    if (draw.count == 1) return uint32_t(close[0]);
    return draw.best(threadIdx.x < draw.count ? scored(draw, close[threadIdx.x]) : nobody()).token;
}

// How many of the first tokens of the sorted list pass.
template <typename Draw>
__device__ __noinline__ uint32_t passing(Draw& draw, uint32_t listed) {
    uint32_t kept = 0;
#pragma unroll 1
    for (uint32_t start = 0; start < listed; start += DRAW_THREADS) {
        const uint32_t i = start + threadIdx.x;
        kept += __syncthreads_count(i < listed && draw.passes(logit_of(draw.keys[i]), uint32_t(draw.keys[i])));
    }
    return kept;
}

// How many of the first tokens of the sorted list TOP_P keeps, of a total mass; 0: of the mass of these
// tokens.
template <typename Draw>
__device__ __noinline__ uint32_t top_p(Draw& draw, const Stage& stage, uint32_t listed, uint64_t total) {
    const Softmax softmax = {draw.x_max, stage.scale};
    const uint32_t lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    __syncthreads();
    // In the order, as many tokens at a time as there are threads; a first turn finds the total where it is
    // not given and does not fit one stretch.
    uint64_t before_stretch = 0;
    uint32_t kept = 0;
#pragma unroll 1
    for (uint32_t turn = total == 0 && listed > DRAW_THREADS ? 0 : 1; turn < 2; turn++) {
        before_stretch = 0;
#pragma unroll 1
        for (uint32_t start = 0; start < listed; start += DRAW_THREADS) {
            const uint32_t i = start + threadIdx.x;
            const uint64_t own = i < listed ? weight(softmax, logit_of(draw.keys[i])) : 0;
            uint64_t upto = own;
#pragma unroll
            for (int offset = 1; offset < 32; offset <<= 1) {
                const uint64_t other = __shfl_up_sync(ALL_LANES, upto, offset);
                if (lane >= offset) upto += other;
            }
            if (lane == 31) draw.parts[warp].mass = upto;
            __syncthreads();
            uint64_t before_own = before_stretch + upto - own, stretch = 0;
#pragma unroll
            for (uint32_t i = 0; i < WARPS; i++) {
                const uint64_t of_warp = draw.parts[i].mass;
                before_own += i < warp ? of_warp : 0;
                stretch += of_warp;
            }
            before_stretch += stretch;
            if (turn == 0) {
                __syncthreads();
                continue;
            }
            const uint64_t whole = total != 0 ? total : before_stretch;
            kept += __syncthreads_count(i < listed && is_below(before_own, stage.share, whole));
        }
        if (turn == 0) total = before_stretch;
    }
    return kept;
}

// The winner among the first tokens of the sorted list: in f32 first, as `race` does it.
template <typename Draw>
__device__ __noinline__ Finalist race_listed(Draw& draw, uint32_t listed) {
    __syncthreads();
    if (threadIdx.x == 0) {
        draw.lead = order_of(negative_infinity());
        draw.count = 0;
    }
    __syncthreads();
    float high = negative_infinity();
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < listed; i += DRAW_THREADS) {
        const uint32_t token = uint32_t(draw.keys[i]);
        const float score = rough_score(draw, token, logit_of(draw.keys[i]), draw.gains()[token / BLOCK]);
        draw.listed_scores[i] = score;
        high = fmaxf(high, score);
    }
    high = largest_of_warp(high);
    if ((threadIdx.x & 31) == 0 && high > negative_infinity()) atomicMax(&draw.lead, order_of(high));
    __syncthreads();
    high = number_of(draw.lead);
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < listed; i += DRAW_THREADS) {
        if (draw.listed_scores[i] + 2 * MARGIN >= high) {
            const uint32_t place = atomicAdd(&draw.count, 1);
            if (place < CANDIDATE_CAPACITY) draw.candidates[place] = draw.keys[i];
        }
    }
    __syncthreads();
    const uint32_t found = draw.count;
    if (found == 1) return {0.0, uint32_t(draw.candidates[0]), logit_of(draw.candidates[0])};
    Finalist own = nobody();
    if (found <= CANDIDATE_CAPACITY) {
        if (threadIdx.x < found) own = scored(draw, draw.candidates[threadIdx.x]);
    } else {
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < listed; i += DRAW_THREADS) {
            const Finalist other = scored(draw, draw.keys[i]);
            if (other.score > own.score || (other.score == own.score && other.token < own.token)) own = other;
        }
    }
    return draw.best(own);
}
