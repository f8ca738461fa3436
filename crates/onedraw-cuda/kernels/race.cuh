// The race: which token finishes first. Part of draw.cuh.
#pragma once

#include "draw.cuh"

template <typename T>
__device__ __noinline__ Finalist Draw<T>::scored(Key key) const {
    const uint32_t token = uint32_t(key), block = token / BLOCK;
    const float x = logit_of(key);
    uint32_t bits[3];
#pragma unroll 1
    for (uint32_t purpose = 0; purpose < 3; purpose++) {
        const uint32_t place = purpose == TOKEN ? token : block;
        bits[purpose] = word(words(noise(), Purpose(purpose), place / 4), place % 4);
    }
    const double minimum = exponential(bits[BLOCK_MINIMUM]) / 64.0, others = exponential(bits[TOKEN]);
    const double time = bits[BLOCK_LANE] >> 26 == token % BLOCK ? minimum : minimum + others;
    return {(double(x) - double(x_max)) * row.inverse - ln(time), token, x};
}

template <typename T>
__device__ __noinline__ Finalist Draw<T>::race(Key before) {
    // What the loop needs, in registers: shared memory would be read again after every write to it.
    const uint32_t lane = threadIdx.x & 31, warp = threadIdx.x >> 5, all = blocks, tokens = vocabulary, id_before = uint32_t(before);
    const float reach = logit_of(before), top = x_max, factor = inverse, bottom = lowest, ceiling = above;
    const T* const row_logits = logits;
    const Adjustment own_adjustment = adjustment;
    const Place own_place = place;
    const bool bare = is_bare;
    const Noise own_noise = noise();
    const bool is_aligned = reinterpret_cast<uint64_t>(row_logits) % (4 * sizeof(T)) == 0;
    float *const bounds = reinterpret_cast<float*>(work), *const tallest = highest, *const gains = lucks;
    uint16_t* const list_of_blocks = opened;
    __syncthreads();
    if (threadIdx.x == 0) {
        lead = negative_infinity();
        count = 0;
        listed_blocks = 0;
    }
    // The highest bound of each half warp's blocks is opened first: then the lead is nearly the final one.
    float high = negative_infinity();
    uint32_t block = all;
#pragma unroll 1
    for (uint32_t start = threadIdx.x; start < all; start += EACH * DRAW_THREADS) {
#pragma unroll
        for (uint32_t j = 0; j < EACH; j++) {
            const uint32_t i = start + j * DRAW_THREADS;
            if (i >= all) continue;
            const float bound = tallest[i] >= reach ? (tallest[i] - top) * factor + gains[i] : negative_infinity();
            bounds[i] = bound;
            if (bound > high) {
                high = bound;
                block = i;
            }
        }
    }
    float half = high;
#pragma unroll
    for (int offset = 8; offset > 0; offset >>= 1) half = fmaxf(half, __shfl_xor_sync(ALL, half, offset));
    const uint32_t holders = __ballot_sync(ALL, high == half && high > negative_infinity()) >> (lane & 16) & 0xffff;
    const uint32_t theirs = __shfl_sync(ALL, block, (lane & 16) + (holders ? __ffs(holders) - 1 : 0));
    block = holders ? theirs : all;
    __syncthreads();
    uint32_t rest = 0, next = 2 * warp;
    bool is_first = true;
#pragma unroll 1
    while (true) {
        if (!is_first) {
            if (next >= rest) break;
            block = next + (lane >> 4) < rest ? list_of_blocks[next + (lane >> 4)] : all;
            next += 2 * WARPS;
            // The lead may have grown since.
            if (block < all && bounds[block] + MARGIN < lead) block = all;
            if (!__any_sync(ALL, block < all)) continue;
        }
        const uint32_t token = block * BLOCK + 4 * (lane & 15);
        float4 x = make_float4(negative_infinity(), negative_infinity(), negative_infinity(), negative_infinity());
        if (block < all) {
            if (is_aligned && token + 4 <= tokens) {
                x = four(row_logits + token);
            } else {
                if (token < tokens) x.x = widened(row_logits[token]);
                if (token + 1 < tokens) x.y = widened(row_logits[token + 1]);
                if (token + 2 < tokens) x.z = widened(row_logits[token + 2]);
                if (token + 3 < tokens) x.w = widened(row_logits[token + 3]);
            }
        }
        if (!bare && block < all && token < tokens) own_adjustment.apply(x, token, own_place);
        const uint4 bits = words(own_noise, TOKEN, token / 4);
        const float luck = block < all ? gains[block] : 0.0f;
        const uint32_t first = __float_as_uint(luck) & LANE_BITS;
        const float minimum = __expf(-luck);
        const auto score = [&](float x, uint32_t i, uint32_t bits) {
            const bool runs = x > negative_infinity() && x >= bottom && x < ceiling && (x > reach || (x == reach && token + i < id_before));
            const float time = 4 * (lane & 15) + i == first ? minimum : minimum + rough_exponential(bits);
            return runs ? (x - top) * factor - __logf(time) : negative_infinity();
        };
        const float s0 = score(x.x, 0, bits.x), s1 = score(x.y, 1, bits.y), s2 = score(x.z, 2, bits.z), s3 = score(x.w, 3, bits.w);
        float best = fmaxf(fmaxf(s0, s1), fmaxf(s2, s3));
        const float own_best = best;
#pragma unroll
        for (int offset = 16; offset > 0; offset >>= 1) best = fmaxf(best, __shfl_xor_sync(ALL, best, offset));
        // Whoever writes last may write less: then less is pruned, and nothing wrongly.
        const float known = lead, bar = fmaxf(best - MARGIN, known) - MARGIN;
        if (lane == 0 && best - MARGIN > known) lead = best - MARGIN;
        if (own_best > negative_infinity() && own_best >= bar) {
            const auto keep = [&](float s, float x, uint32_t i) {
                if (s > negative_infinity() && s >= bar) {
                    const uint32_t place = atomicAdd(&count, 1);
                    if (place < CANDIDATES) {
                        candidates[place] = key_of(x, token + i);
                        rough_scores[place] = s;
                    }
                }
            };
            keep(s0, x.x, 0);
            keep(s1, x.y, 1);
            keep(s2, x.z, 2);
            keep(s3, x.w, 3);
        }
        if (is_first) {
            is_first = false;
            if ((lane & 15) == 0 && block < all) bounds[block] = negative_infinity();
            __syncthreads();
            // Then whatever could still win, all half warps at a time.
            const float low = lead - MARGIN;
#pragma unroll 1
            for (uint32_t start = threadIdx.x & ~31u; start < all; start += EACH * DRAW_THREADS) {
                float bound[EACH];
#pragma unroll
                for (uint32_t i = 0; i < EACH; i++) {
                    const uint32_t own = start + i * DRAW_THREADS + lane;
                    bound[i] = own < all ? bounds[own] : negative_infinity();
                }
#pragma unroll
                for (uint32_t i = 0; i < EACH; i++) {
                    if (bound[i] > negative_infinity() && bound[i] >= low) list_of_blocks[atomicAdd(&listed_blocks, 1)] = uint16_t(start + i * DRAW_THREADS + lane);
                }
            }
            __syncthreads();
            rest = listed_blocks;
        }
    }
    __syncthreads();
    const uint32_t found = count;
    if (found <= 32) {
        // Most were ahead for a moment only: hardly ever does f32 leave two to tell apart.
        const float own_score = lane < found ? rough_scores[lane] : negative_infinity();
        float highest_score = own_score;
#pragma unroll
        for (int offset = 16; offset > 0; offset >>= 1) highest_score = fmaxf(highest_score, __shfl_xor_sync(ALL, highest_score, offset));
        const uint32_t close = __ballot_sync(ALL, lane < found && own_score + 2 * MARGIN >= highest_score);
        if (__popc(close) == 1) {
            const Key winner = candidates[__ffs(close) - 1];
            return {0.0, uint32_t(winner), logit_of(winner)};
        }
        // One warp: what all of them did would take as many times as long.
        if (warp == 0) {
            const Finalist winner = best_of_warp(close >> lane & 1 ? scored(candidates[lane]) : nobody());
            if (lane == 0) finalists[0] = winner;
        }
        __syncthreads();
        return finalists[0];
    }
    if (found <= CANDIDATES) return best(threadIdx.x < found ? scored(candidates[threadIdx.x]) : nobody());
    // Too many that are too near: all that run are scored.
    Finalist own = nobody();
    over(collect(reach), [&](float x, uint32_t token) {
        if (!(x > negative_infinity()) || !passes(x) || key_of(x, token) >= before) return;
        const Finalist other = scored(key_of(x, token));
        if (other.score > own.score || (other.score == own.score && other.token < own.token)) own = other;
    });
    return best(own);
}
