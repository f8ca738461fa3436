// The race: which token finishes first. Part of draw.cuh.
#pragma once

#include "draw.cuh"

template <typename T, Rows ROWS>
__device__ __noinline__ Finalist Draw<T, ROWS>::scored(Key key) const {
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

template <typename T, Rows ROWS>
__device__ __forceinline__ void Draw<T, ROWS>::open(uint32_t block) {
    const uint32_t lane = threadIdx.x & 31, tokens = vocabulary, token = block * BLOCK + 4 * (lane & 15);
    const T* const row_logits = logits;
    const bool is_there = block < room;
    float4 x = four_at(row_logits, is_there ? token : tokens, tokens);
    const bool has_edits = ROWS != BARE && !is_bare && is_there && token < tokens;
    const uint4 bits = words(noise(), TOKEN, token / 4);
    const float luck = is_there ? lucks()[block] : 0.0f, top = x_max, factor = float(row.inverse), bottom = lowest, ceiling = above;
    const uint32_t first = __float_as_uint(luck) & LANE_BITS, id_before = uint32_t(before), place_before = uint32_t(before >> 32);
    if (has_edits) settle(x, token);
    const float minimum = power_of(luck * -1.44269504f);
    // Without a branch: all four are under way together.
    const auto score = [&](float x, uint32_t i, uint32_t bits) {
        // By places, not by logits: -0 has one of its own, right after that of +0, where no token stands.
        const uint32_t own_place = descending(x);
        const bool runs = (x > negative_infinity()) & (x >= bottom) & (x < ceiling) & ((own_place < place_before) | ((own_place == place_before) & (token + i < id_before)));
        const float later = minimum + rough_exponential(bits), time = 4 * (lane & 15) + i == first ? minimum : later;
        const float score = (x - top) * factor - rough_ln(time);
        return runs ? score : negative_infinity();
    };
    const float s0 = score(x.x, 0, bits.x), s1 = score(x.y, 1, bits.y), s2 = score(x.z, 2, bits.z), s3 = score(x.w, 3, bits.w);
    const float own = fmaxf(fmaxf(s0, s1), fmaxf(s2, s3)), best_here = largest_of_warp(own);
    if (!(best_here > negative_infinity())) return;
    const int known = *reinterpret_cast<volatile int*>(&lead), here = order_of(best_here - MARGIN);
    if (lane == 0 && here > known) atomicMax(&lead, here);
    const float bar = number_of(max(known, here)) - MARGIN;
    if (!(own > negative_infinity() && own >= bar)) return;
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

template <typename T, Rows ROWS>
__device__ __noinline__ Finalist Draw<T, ROWS>::race(Key end) {
    const uint32_t lane = threadIdx.x & 31, warp = threadIdx.x >> 5, all = room, quads = all / 4;
    const float reach = fmaxf(logit_of(end), lowest), top = x_max, factor = float(row.inverse);
    float* const bounds = reinterpret_cast<float*>(work());
    __syncthreads();
    if (threadIdx.x == 0) {
        lead = order_of(negative_infinity());
        count = 0;
        before = end;
    }
    float high = negative_infinity();
    uint32_t block = all;
#pragma unroll 1
    for (uint32_t quad = threadIdx.x; quad < quads; quad += DRAW_THREADS) {
        const float4 tallest = reinterpret_cast<const float4*>(highest())[quad], gains = reinterpret_cast<const float4*>(lucks())[quad];
        const auto bound_of = [&](float x, float gain, uint32_t i) {
            const float sum = (x - top) * factor + gain, bound = (x >= reach) & (x > negative_infinity()) ? sum : negative_infinity();
            block = bound > high ? 4 * quad + i : block;
            high = fmaxf(high, bound);
            return bound;
        };
        const float x = bound_of(tallest.x, gains.x, 0), y = bound_of(tallest.y, gains.y, 1), z = bound_of(tallest.z, gains.z, 2), w = bound_of(tallest.w, gains.w, 3);
        reinterpret_cast<float4*>(bounds)[quad] = make_float4(x, y, z, w);
    }
    // The best bound of each warp, with its block.
    const float best_bound = largest_of_warp(high);
    const uint32_t holders = __ballot_sync(ALL, high == best_bound);
    block = __shfl_sync(ALL, block, __ffs(holders) - 1);
    // These are opened first: then the lead is nearly the final one. After them whatever could still win, so many at a time.
    constexpr uint32_t MANY = 128;
    uint32_t* const opened = reinterpret_cast<uint32_t*>(keys);
    // Another lane wrote the bound that is taken back here.
    __syncwarp();
    if (lane == 0) {
        opened[warp] = block;
        if (block < all) bounds[block] = negative_infinity();
    }
    __syncthreads();
    uint32_t left = WARPS;
    bool is_more = true;
    // How much more a block must promise for now.
    float raised = 0.0f;
#pragma unroll 1
    while (true) {
#pragma unroll 1
        for (uint32_t i = 2 * warp; i < left; i += 2 * WARPS) {
            block = i + (lane >> 4) < left ? opened[i + (lane >> 4)] : all;
            if (__any_sync(ALL, block < all)) open(block);
        }
        __syncthreads();
        if (!is_more) break;
        if (threadIdx.x == 0) others = 0;
        const float low = number_of(lead) - MARGIN + raised;
        __syncthreads();
#pragma unroll 1
        for (uint32_t quad = threadIdx.x; quad < quads; quad += DRAW_THREADS) {
            const float4 bound = reinterpret_cast<const float4*>(bounds)[quad];
            if (!(largest(bound) >= low && largest(bound) > negative_infinity())) continue;
            const auto add = [&](float bound, uint32_t i) {
                if (!(bound >= low && bound > negative_infinity())) return;
                const uint32_t place = atomicAdd(&others, 1);
                if (place >= MANY) return;
                opened[place] = 4 * quad + i;
                bounds[4 * quad + i] = negative_infinity();
            };
            add(bound.x, 0);
            add(bound.y, 1);
            add(bound.z, 2);
            add(bound.w, 3);
        }
        __syncthreads();
        const uint32_t reached = others;
        left = min(reached, MANY);
        is_more = reached > MANY || raised > 0.0f;
        // Bounds are as rare as they are high, by the exponential: the best of these come next, and after them most of the others cannot win any more.
        raised = reached > MANY ? raised + rough_ln(float(reached) * (2.0f / MANY)) : 0.0f;
    }
    return decided();
}

template <typename T, Rows ROWS>
__device__ __noinline__ Finalist Draw<T, ROWS>::decided() {
    const uint32_t lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const uint32_t found = count;
    if (found <= 32) {
        // Most were ahead for a moment only: hardly ever does f32 leave two to tell apart.
        const float own_score = lane < found ? rough_scores[lane] : negative_infinity();
        const float highest_score = largest_of_warp(own_score);
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
    over(collect(fmaxf(logit_of(before), lowest)), [&](float x, uint32_t token) {
        if (!(x > negative_infinity()) || !passes(x) || key_of(x, token) >= before) return;
        const Finalist other = scored(key_of(x, token));
        if (other.score > own.score || (other.score == own.score && other.token < own.token)) own = other;
    });
    return best(own);
}
