// The race: which token has the largest score.
//
// The naive loop (crates/onedraw/src/reference/list.rs: Left::draw), over the tokens alive that pass and come
// before a key:
//
//     for each token:
//         score = (logit - x_max) / T - ln(E)                   in f64; E is the token's exponential
//         if score > best, or score == best and the id is lower: best = score, winner = token
//
// with E = M for one lane of every block of 64 tokens and E = M + another exponential for the others
// (numeric/noise.rs), M being the block's smallest exponential.
//
// What this code does differently:
//
// 1. Every block gets a bound, (highest logit - x_max) / T + gain, gain = -ln M. Only blocks whose bound
//    could win are opened.
// 2. Each warp opens the block with the best bound among its own, so that 16 good blocks come first and the
//    lead is nearly final after them. The rest follows in rounds of OPENED_PER_ROUND blocks at most, shared
//    by all warps. Where more could win, the bar is raised for the round so that about half as many reach it:
//    bounds fall off like exponentials, so that n blocks within reach become n / e^r when the bar is raised
//    by r.
// 3. Scores are computed in f32, four tokens per lane of a half warp, without branches. A token is kept as a
//    candidate if it could be the winner by what is known at that time.
// 4. f64 scores are computed only of candidates whose f32 scores are within two margins of the best; if there
//    is one such candidate, it has won.
//
// Why this is exact. Write s for a token's f64 score and f for its f32 score; |s - f| < MARGIN wherever it
// matters (limits.cuh).
//
// - No token of a block has a larger score than the block's bound in exact numbers: its logit is not larger
//   than the highest, its E is not smaller than M. The bound in f32 is within MARGIN of that.
// - `lead` is f - MARGIN of some token, so it is below that token's s, and below the winner's. A block or
//   token whose f32 number is below lead - MARGIN has s < lead: it cannot win. Only such blocks and tokens
//   are skipped (1, 2, 3). A block's bound is set to -inf when it is opened, so every block is either opened
//   once or skipped for this reason: the loop ends only when no bound reaches the bar without being raised.
// - If f + 2 * MARGIN < the best f, then s < f + MARGIN < best f - MARGIN < the s of that candidate (4). Ties
//   of s are decided among f64 scores alone, by the lower id.
// - The CPU prunes in time rather than in logarithms (crates/onedraw/src/logits/race.rs); both skip only what
//   cannot win, so both find the winner of the definition.
#pragma once

#include "../rows/skyline.cuh"
#include "blocks.cuh"

// A token's score in f64. The definition: numeric/noise.rs (Noise::token) and the score. The three words are made
// in one loop, not unrolled: it is code that few rows run. Any thread may call it.
template <typename Draw>
__device__ __noinline__ Finalist scored(const Draw& draw, Key key) {
    const uint32_t token = uint32_t(key), block = token / BLOCK;
    const float x = logit_of(key);
    uint32_t bits[3];
#pragma unroll 1
    for (uint32_t purpose = 0; purpose < 3; purpose++) {
        const uint32_t place = purpose == TOKEN ? token : block;
        bits[purpose] = word(words(draw.noise(), Purpose(purpose), place / 4), place % 4);
    }
    const double minimum = exponential(bits[BLOCK_MINIMUM]) / 64.0, others = exponential(bits[TOKEN]);
    const double time = bits[BLOCK_LANE] >> 26 == token % BLOCK ? minimum : minimum + others;
    return {(double(x) - double(draw.x_max)) * draw.sequence.inverse - ln(time), token, x};
}

// A token's score in f32. Any thread may call it.
template <typename Draw>
__device__ __forceinline__ float rough_score(const Draw& draw, uint32_t token, float x, float gain) {
    const float minimum = power_of(gain * -LOG2_E_F32), later = minimum + rough_exponential(word(words(draw.noise(), TOKEN, token / 4), token % 4));
    return (x - draw.x_max) * float(draw.sequence.inverse) - rough_ln((__float_as_uint(gain) & LANE_BITS) == token % BLOCK ? minimum : later);
}

// Scores the tokens of one block for each half warp in f32, four tokens per lane, and keeps those that
// could win. All lanes of the warp come here.
template <typename Draw>
__device__ __forceinline__ void open_block(Draw& draw, uint32_t block) {
    const uint32_t lane = threadIdx.x & 31, tokens = draw.vocabulary, token = block * BLOCK + 4 * (lane & 15);
    const typename Draw::Logit* const row_logits = draw.logits;
    const bool is_there = block < draw.padded_blocks;
    float4 x = four_at(draw, row_logits, is_there ? token : tokens, tokens);
    const bool has_edits = Draw::rows != BARE && !draw.is_bare && is_there && token < tokens;
    const uint4 bits = words(draw.noise(), TOKEN, token / 4);
    const float gain = is_there ? draw.gains()[block] : 0.0f, top = draw.x_max, factor = float(draw.sequence.inverse), bottom = draw.lowest, ceiling = draw.above;
    const uint32_t first = __float_as_uint(gain) & LANE_BITS, id_before = uint32_t(draw.before), place_before = uint32_t(draw.before >> 32);
    if (has_edits) apply_edits(draw, x, token);
    const float minimum = power_of(gain * -LOG2_E_F32);
    // Without a branch: the scores of all four tokens are under way together.
    const auto score = [&](float x, uint32_t i, uint32_t bits) {
        // Compared as places in the order, not as logits: the place after all tokens of the logit 0 is that
        // of -0, which no token has, and which as a logit would be equal to 0.
        const uint32_t own_place = descending(x);
        bool runs = (x > negative_infinity()) & (x >= bottom) & (x < ceiling) & ((own_place < place_before) | ((own_place == place_before) & (token + i < id_before)));
        if (is_staged(Draw::rows) && draw.head != 0) runs = runs && !is_removed(draw.sequence, draw.head, x, token + i);
        const float later = minimum + rough_exponential(bits), time = 4 * (lane & 15) + i == first ? minimum : later;
        const float score = (x - top) * factor - rough_ln(time);
        return runs ? score : negative_infinity();
    };
    const float s0 = score(x.x, 0, bits.x), s1 = score(x.y, 1, bits.y), s2 = score(x.z, 2, bits.z), s3 = score(x.w, 3, bits.w);
    const float own = fmaxf(fmaxf(s0, s1), fmaxf(s2, s3)), best_here = largest_of_warp(own);
    if (!(best_here > negative_infinity())) return;
    const int known = *reinterpret_cast<volatile int*>(&draw.lead), here = order_of(best_here - MARGIN);
    if (lane == 0 && here > known) atomicMax(&draw.lead, here);
    const float bar = number_of(max(known, here)) - MARGIN;
    if (!(own > negative_infinity() && own >= bar)) return;
    const auto keep = [&](float s, float x, uint32_t i) {
        if (s > negative_infinity() && s >= bar) {
            const uint32_t place = atomicAdd(&draw.count, 1);
            if (place < CANDIDATE_CAPACITY) {
                draw.candidates[place] = key_of(x, token + i);
                draw.rough_scores[place] = s;
            }
        }
    };
    keep(s0, x.x, 0);
    keep(s1, x.y, 1);
    keep(s2, x.z, 2);
    keep(s3, x.w, 3);
}

// The winner among the candidates; where these were too many, among all tokens of the race.
template <typename Draw>
__device__ __noinline__ Finalist decided(Draw& draw) {
    const uint32_t lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const uint32_t found = draw.count;
    if (found <= 32) {
        // Most candidates were ahead only for a moment: f32 hardly ever leaves two to tell apart.
        const float own_score = lane < found ? draw.rough_scores[lane] : negative_infinity();
        const float highest_score = largest_of_warp(own_score);
        const uint32_t close = __ballot_sync(ALL_LANES, lane < found && own_score + 2 * MARGIN >= highest_score);
        if (__popc(close) == 1) {
            const Key winner = draw.candidates[__ffs(close) - 1];
            return {0.0, uint32_t(winner), logit_of(winner)};
        }
        // One warp does it: 16 warps that all did the same would take turns and be slower.
        if (warp == 0) {
            const Finalist winner = best_of_warp(close >> lane & 1 ? scored(draw, draw.candidates[lane]) : nobody());
            if (lane == 0) draw.finalists[0] = winner;
        }
        __syncthreads();
        return draw.finalists[0];
    }
    if (found <= CANDIDATE_CAPACITY) return draw.best(threadIdx.x < found ? scored(draw, draw.candidates[threadIdx.x]) : nobody());
    // More candidates than fit: all tokens of the race are scored in f64.
    Finalist own = nobody();
    over(draw, collect(draw, fmaxf(logit_of(draw.before), draw.lowest)), [&](float x, uint32_t token) {
        if (!(x > negative_infinity()) || !draw.passes(x, token) || key_of(x, token) >= draw.before) return;
        const Finalist other = scored(draw, key_of(x, token));
        if (other.score > own.score || (other.score == own.score && other.token < own.token)) own = other;
    });
    return draw.best(own);
}

// The winner among the tokens before a key that pass.
template <typename Draw>
__device__ __noinline__ Finalist race(Draw& draw, Key end) {
    const uint32_t lane = threadIdx.x & 31, warp = threadIdx.x >> 5, all = draw.padded_blocks, quads = all / 4;
    const float reach = fmaxf(logit_of(end), draw.lowest), top = draw.x_max, factor = float(draw.sequence.inverse);
    float* const bounds = reinterpret_cast<float*>(draw.work());
    __syncthreads();
    if (threadIdx.x == 0) {
        draw.lead = order_of(negative_infinity());
        draw.count = 0;
        draw.before = end;
    }
    float high = negative_infinity();
    uint32_t block = all;
#pragma unroll 1
    for (uint32_t quad = threadIdx.x; quad < quads; quad += DRAW_THREADS) {
        const float4 tallest = reinterpret_cast<const float4*>(draw.highest())[quad], four_gains = reinterpret_cast<const float4*>(draw.gains())[quad];
        const auto bound_of = [&](float x, float gain, uint32_t i) {
            const float sum = (x - top) * factor + gain, bound = (x >= reach) & (x > negative_infinity()) ? sum : negative_infinity();
            block = bound > high ? 4 * quad + i : block;
            high = fmaxf(high, bound);
            return bound;
        };
        const float x = bound_of(tallest.x, four_gains.x, 0), y = bound_of(tallest.y, four_gains.y, 1), z = bound_of(tallest.z, four_gains.z, 2), w = bound_of(tallest.w, four_gains.w, 3);
        reinterpret_cast<float4*>(bounds)[quad] = make_float4(x, y, z, w);
    }
    // The best bound of each warp, with its block.
    const float best_bound = largest_of_warp(high);
    const uint32_t holders = __ballot_sync(ALL_LANES, high == best_bound);
    block = __shfl_sync(ALL_LANES, block, __ffs(holders) - 1);
    // Blocks that are opened in one round, at most: four for each half warp. Flat rows with min-p, where many
    // blocks could win, took 21.3 us for one row without rounds and 11.2 with them
    // (bench/results/2026-11-16-cuda.md).
    constexpr uint32_t OPENED_PER_ROUND = 128;
    uint32_t* const opened = reinterpret_cast<uint32_t*>(draw.keys);
    // The bound that is taken back here may have been written by another lane.
    __syncwarp();
    if (lane == 0) {
        opened[warp] = block;
        if (block < all) bounds[block] = negative_infinity();
    }
    __syncthreads();
    uint32_t left = WARPS;
    bool is_more = true;
    // How much the bar is raised for the next round.
    float raised = 0.0f;
#pragma unroll 1
    while (true) {
#pragma unroll 1
        for (uint32_t i = 2 * warp; i < left; i += 2 * WARPS) {
            block = i + (lane >> 4) < left ? opened[i + (lane >> 4)] : all;
            if (__any_sync(ALL_LANES, block < all)) open_block(draw, block);
        }
        __syncthreads();
        if (!is_more) break;
        if (threadIdx.x == 0) draw.others = 0;
        const float low = number_of(draw.lead) - MARGIN + raised;
        __syncthreads();
#pragma unroll 1
        for (uint32_t quad = threadIdx.x; quad < quads; quad += DRAW_THREADS) {
            const float4 bound = reinterpret_cast<const float4*>(bounds)[quad];
            if (!(largest(bound) >= low && largest(bound) > negative_infinity())) continue;
            const auto add = [&](float bound, uint32_t i) {
                if (!(bound >= low && bound > negative_infinity())) return;
                const uint32_t place = atomicAdd(&draw.others, 1);
                if (place >= OPENED_PER_ROUND) return;
                opened[place] = 4 * quad + i;
                bounds[4 * quad + i] = negative_infinity();
            };
            add(bound.x, 0);
            add(bound.y, 1);
            add(bound.z, 2);
            add(bound.w, 3);
        }
        __syncthreads();
        const uint32_t reached = draw.others;
        left = min(reached, OPENED_PER_ROUND);
        is_more = reached > OPENED_PER_ROUND || raised > 0.0f;
        // Raised by ln(reached / (OPENED_PER_ROUND / 2)), about half a round's blocks are expected to reach
        // the bar.
        raised = reached > OPENED_PER_ROUND ? raised + rough_ln(float(reached) * (2.0f / OPENED_PER_ROUND)) : 0.0f;
    }
    return decided(draw);
}
