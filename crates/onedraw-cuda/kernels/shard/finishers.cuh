// The finishers: the 8 tokens of a part, up to `end`, with the largest scores. A step of opening.cuh, which has the
// naive loop.
//
// What this code does differently:
//
// 1. Scores are computed in f32 first. The blocks with the largest bounds are raced first, and the n-th largest
//    score, one of each thread, less its error, is a bar that at least n tokens clear. Then every block and
//    token that could clear it is looked at, and what is left is scored in f64 and ranked (`rank_listed`).
// 2. A list that does not fit is not kept: then finishers are found one after the other, each by a pass over all
//    tokens (`rank_all`).
//
// Why this is exact: write s for a token's f64 score and f for its f32 score: |s - f| <= slack(f) (see there). With the bar
// b = f - slack(f) of the n-th largest f, n tokens have s >= b, so the n-th largest s is at least b. A token
// whose f + slack(f) is below b has s < b, and a block whose bound is has no other tokens: neither has one of
// the first n. What is compared with NaN is not skipped. f64 scores, with the lower id for equal ones, are a total order,
// so ranks do not depend on the order of the list.
#pragma once

#include "../number/warp.cuh"
#include "opening.cuh"
#include "question.cuh"

// Blocks with the largest bounds that are raced first, at least: on flat rows they hold most of the finishers.
constexpr uint32_t FIRST_RACED = 32;
static_assert(OPEN_FINISHERS <= FIRST_RACED && FIRST_RACED <= OPEN_THREADS, "one thread for each");
// Fewer blocks than finishers: all of their tokens fit the list.
static_assert(OPEN_FINISHERS * BLOCK <= OPEN_LIST, "few blocks overflow nothing");

// How far an f32 score or bound may be from its f64 twin. The noise is off by less than 2^-11, as draw/limits.cuh
// says of MARGIN. (x - x_max) / T takes three roundings of numbers no larger than |f| + 28, because -ln E is
// at most 27.1 in size: less than 2^-22 of that.
__device__ __forceinline__ float slack(float score) { return MARGIN + fabsf(score) * 0x1p-20f; }

// A token's score in f64, as an integer in the same order: the definition.
template <typename Opening>
__device__ __forceinline__ uint64_t score_of(const Opening& opening, float x, uint32_t token) { return order_of_score((double(x) - double(opening.x_max)) * opening.task.inverse + luck_of(opening.noise(), token)); }

// The f32 scores of the lane's four tokens of a block that race; -inf for the others.
template <typename Opening>
__device__ __forceinline__ float4 rough_four(const Opening& opening, float4 x, uint32_t block) {
    const uint32_t token = opening.token_in(block), global = opening.first_block + block;
    const Noise own = opening.noise();
    const uint4 bits = words(own, TOKEN, token / 4);
    const float minimum = rough_exponential(word(words(own, BLOCK_MINIMUM, global / 4), global % 4)) * (1.0f / 64.0f);
    const uint32_t first = word(words(own, BLOCK_LANE, global / 4), global % 4) >> 26;
    const float factor = float(opening.task.inverse), highest = opening.x_max, lowest = logit_of(opening.end);
    const auto score = [&](float x, uint32_t i, uint32_t bits) {
        const float later = minimum + rough_exponential(bits), time = (token + i) % BLOCK == first ? minimum : later;
        return (x >= lowest) & (x > negative_infinity()) ? (x - highest) * factor - rough_ln(time) : negative_infinity();
    };
    return make_float4(score(x.x, 0, bits.x), score(x.y, 1, bits.y), score(x.z, 2, bits.z), score(x.w, 3, bits.w));
}

// Computes the bounds of all blocks; returns the largest of the thread's own.
template <typename Opening>
__device__ __forceinline__ float make_bounds(Opening& opening) {
    const Noise own_noise = opening.noise();
    const float factor = float(opening.task.inverse), highest = opening.x_max, lowest = logit_of(opening.end);
    float own = negative_infinity();
#pragma unroll 1
    for (uint32_t block = threadIdx.x; block < opening.blocks; block += OPEN_THREADS) {
        const float peak = opening.peaks()[block];
        float bound = negative_infinity();
        if (peak >= lowest && peak > negative_infinity()) {
            const uint32_t global = opening.first_block + block;
            bound = (peak - highest) * factor - rough_ln(rough_exponential(word(words(own_noise, BLOCK_MINIMUM, global / 4), global % 4)) * (1.0f / 64.0f));
            // Whatever f32 cannot tell comes first.
            if (bound != bound || bound == negative_infinity()) bound = positive_infinity();
        }
        opening.bounds()[block] = bound;
        own = fmaxf(own, bound);
    }
    __syncthreads();
    return own;
}

// Scores the listed tokens in f64, and ranks them.
template <typename Opening>
__device__ __forceinline__ void rank_listed(Opening& opening, uint32_t runners) {
    uint64_t* const orders = reinterpret_cast<uint64_t*>(opening.scores);
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < runners; i += OPEN_THREADS) orders[i] = score_of(opening, logit_of(opening.keys[i]), uint32_t(opening.keys[i]));
    __syncthreads();
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < runners; i += OPEN_THREADS) {
        uint32_t rank = 0;
#pragma unroll 1
        for (uint32_t j = 0; j < runners; j++) rank += orders[j] > orders[i] || (orders[j] == orders[i] && uint32_t(opening.keys[j]) < uint32_t(opening.keys[i]));
        if (rank < OPEN_FINISHERS) opening.finishers[rank] = opening.keys[i];
    }
    if (threadIdx.x == 0) opening.finisher_count = min(runners, OPEN_FINISHERS);
}

// Finds the finishers one after the other. There are more runners than wanted.
template <typename Opening>
__device__ __noinline__ void rank_all(Opening& opening) {
    const float lowest = logit_of(opening.end);
    uint64_t last = ~0ull;
    uint32_t last_token = 0;
#pragma unroll 1
    for (uint32_t i = 0; i < OPEN_FINISHERS; i++) {
        uint64_t own = 0;
        uint32_t own_token = NO_TOKEN;
        over_reaching<1>(opening, lowest, [&](float x, uint32_t token) {
            const uint64_t order = score_of(opening, x, token);
            const bool is_later = order < last || (order == last && token > last_token);
            if (is_later && (order > own || (order == own && token < own_token))) own = order, own_token = token;
        });
        opening.largest_of_all(own, own_token);
        last = opening.found_key;
        last_token = opening.found_token;
        if (threadIdx.x == 0) opening.finishers[i] = key_at(opening, last_token);
    }
    if (threadIdx.x == 0) opening.finisher_count = OPEN_FINISHERS;
}

// The first finishers of the race among the tokens up to `end`.
template <typename Opening>
__device__ __forceinline__ void race_part(Opening& opening) {
    const float first_bound = opening.nth_largest(make_bounds(opening), FIRST_RACED);
    const float* const limits = opening.bounds();
    float own = negative_infinity();
    over_blocks<1>(opening, [=](uint32_t block) { return limits[block] >= first_bound && limits[block] > negative_infinity(); },
                   [&](uint32_t block, float4, float4 x) {
                       if (!(largest(x) > negative_infinity())) return;
                       const float4 scores = rough_four(opening, x, block);
                       own = fmaxf(own, largest(scores));
                   });
    const float nth = opening.nth_largest(own, OPEN_FINISHERS), bar = nth - slack(nth);
    opening.begin_list();
    over_blocks<1>(opening, [=](uint32_t block) { return limits[block] > negative_infinity() && !(limits[block] + slack(limits[block]) < bar); },
                   [&](uint32_t block, float4, float4 x) {
                       if (!(largest(x) > negative_infinity())) return;
                       const float4 scores = rough_four(opening, x, block);
                       const uint32_t token = opening.token_in(block);
                       const float lowest = logit_of(opening.end);
                       const auto keep = [&](float score, float x, uint32_t token) {
                           if (x >= lowest && x > negative_infinity() && !(score + slack(score) < bar)) opening.add(key_of(x, token));
                       };
                       keep(scores.x, x.x, token);
                       keep(scores.y, x.y, token + 1);
                       keep(scores.z, x.z, token + 2);
                       keep(scores.w, x.w, token + 3);
                   });
    __syncthreads();
    const uint32_t runners = opening.count;
    if (runners <= OPEN_LIST) rank_listed(opening, runners);
    else rank_all(opening);
    __syncthreads();
}
