// Logprobs of unmodified rows. They depend on the draw only by its token, so the best tokens and the mass of
// the row are found while the token is drawn, by two kernels of their own: `weigh` and `tell`. (Names of
// kernels and of their bodies are symbols of the kept image; `tell` writes the raw logprobs.)
//
// The naive loop, for one row:
//
//     x_max = the largest logit
//     mass  = sum of floor(2^((logit - x_max) * log2(e)) * 2^43) over all tokens
//     sort the tokens; list the drawn token with its rank, then the first `logprobs` others
//     logprob = (logit - x_max) - ln(mass / 2^43)
//
// What this code does differently:
//
// 1. `weigh` sums the row with several thread blocks, beside the draw: it needs only the first pass.
// 2. `tell` lists the best tokens before the token is known, at least RAW_LISTED_AT_LEAST of them, with the
//    draw's own list (`best_listed` in stages/search.cuh); then it waits for the draw and for `weigh`, and writes.
// 3. The drawn token's rank is its place in that list; if it is not listed, the tokens before it are counted.
//
// Why this is exact: the mass is a sum of integers, added by atomics (1). The list is the true beginning of
// the order, so a place in it is a rank, and counting gives the same number (2, 3). The logprob is computed
// by the CPU's operations in f64 (crates/onedraw/src/engine/report.rs), with x_max from the first pass: the
// largest unmodified logit, which a masked row keeps beside that of the masked logits.
#pragma once

#include "../draw/fetch.cuh"
#include "../rows/sum.cuh"
#include "../stages/search.cuh"
#include "list_all.cuh"

// Tokens that are listed at least, so that the rank of most drawn tokens is a place in the list; counting
// takes 2 us. With 8 tokens 64 rows took 39.0 us, with 16 38.8, with 32 39.2, with 160 44.3
// (bench/results/2026-11-16-cuda.md, "Penalties with logprobs").
constexpr uint32_t RAW_LISTED_AT_LEAST = 16;

// Adds the mass of a part of each row to the row's, for rows whose raw logprobs are asked for. Launched after
// the draw, it begins as soon as the draw has waited for the first pass, and runs beside it.
template <typename T, bool ALIGNED>
__device__ __forceinline__ void weigh_rows(const Step& step) {
    let_the_next_begin();
    // Nothing that the draw writes is read here.
    over_share(step, [&](uint32_t row, uint32_t first, uint32_t end) {
        const Task& task = step.tasks[row];
        if (!task.is_raw) return;
        const bool is_masked = task.mask != nullptr || task.allowed != nullptr;
        Softmax softmax = {0.0f, LOG2_E_F32};
        uint64_t mass = 0;
        // Logits past the end are -inf and weigh nothing.
        over_steps<T, ALIGNED, SUM_THREADS>(
            static_cast<const T*>(step.logits) + int64_t(row) * step.stride, step.vocabulary, first, end, [&] { softmax.x_max = logit_of_summit(__ldcg((is_masked ? step.raw_summits : step.summits) + row * SUMMIT_PITCH)); },
            [&](uint4 x, uint32_t) { over_packed<T>(x, [&](float x, uint32_t) { mass += weight_below(softmax, x); }); });
        mass = sum_of_block(mass);
        if (threadIdx.x == 0) atomicAdd(reinterpret_cast<unsigned long long*>(&step.raw_masses[row]), mass);
        __syncthreads();
    });
    // This kernel must not end before the draw does: the next one waits only for this one, and needs both.
    if (blockIdx.x == 0) wait_for_the_one_before();
}

// Begins with a row that is not drawn.
template <typename Draw>
__device__ __forceinline__ void begin_raw(Draw& draw, const Step& step, uint32_t number) {
    if (threadIdx.x == 0) {
        draw.row = number;
        draw.vocabulary = step.vocabulary;
        draw.padded_blocks = (step.pitch + BLOCKS_ROUNDED_TO - 1) / BLOCKS_ROUNDED_TO * BLOCKS_ROUNDED_TO;
        draw.logits = static_cast<const typename Draw::Logit*>(step.logits) + int64_t(number) * step.stride;
    }
    __syncthreads();
}

// Lists the best tokens of the unmodified row, at least so many, before the token is known. Returns how many.
template <typename Draw>
__device__ __forceinline__ uint32_t list_raw_best(Draw& draw, const Step& step, const Task& task, uint32_t wanted) {
    const bool is_masked = task.mask != nullptr || task.allowed != nullptr;
    fetch_peaks(draw, draw.highest(), (is_masked ? step.raw_peaks : step.peaks) + uint64_t(draw.row) * step.pitch, step.pitch);
    __pipeline_commit();
    const float top = logit_of_summit(__ldcg((is_masked ? step.raw_summits : step.summits) + draw.row * SUMMIT_PITCH));
    if (threadIdx.x == 0) {
        draw.pitch = step.pitch;
        draw.summit = draw.x_max = top + 0.0f;
        draw.last = key_end();
        draw.above = positive_infinity();
        draw.head = 0;
        draw.desk = nullptr;
        draw.lowest = negative_infinity();
    }
    __pipeline_wait_prior(0);
    __syncthreads();
    // A largest logit of +inf or NaN (which is above +inf as an integer) means a bad row: nothing is drawn
    // from it, nor from a row without a token.
    const bool is_sound = top > negative_infinity() && top < positive_infinity();
    return is_sound ? best_listed(draw, max(wanted, RAW_LISTED_AT_LEAST)) : 0;
}

// How many tokens come before a key.
template <typename Draw>
__device__ __noinline__ uint32_t tokens_before(Draw& draw, Key key) {
    uint32_t before = 0;
    before_key(draw, key, [&](float x, float bound) { before += x >= bound; });
    return draw.tallied(make_uint2(before, 0)).x;
}

// Writes the entries, once the token and the mass of the row are known. `before`: how many tokens come before
// the token, NOT_LISTED if nobody has counted them.
template <typename Draw>
__device__ __forceinline__ void write_raw_logprobs(Draw& draw, const Step& step, uint32_t listed, uint32_t known, bool is_logits, uint32_t token, uint64_t mass, uint32_t before) {
    __syncthreads();
    if (threadIdx.x == 0) draw.count = NOT_LISTED;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < known; i += DRAW_THREADS) {
        if (uint32_t(draw.keys[i]) == token) draw.count = i;
    }
    __syncthreads();
    const uint32_t at_place = draw.count;
    // The rank of the token is its place among the listed ones, or the tokens before it are counted, if nobody has.
    const Key key = at_place != NOT_LISTED ? draw.keys[at_place] : key_of(one(draw.logits + token), token);
    const uint32_t rank = 1 + (at_place != NOT_LISTED ? at_place : before != NOT_LISTED ? before : tokens_before(draw, key));
    const double top = double(draw.x_max), ln_mass = ln(relative(mass));
    Entry* const entries = step.entries + uint64_t(draw.row) * step.width;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i <= listed; i += DRAW_THREADS) {
        // The loop goes one further than the list, for the drawn token, which is the first entry and is left
        // out among the others.
        if (i < listed && i == at_place) continue;
        const Key own = i == listed ? key : draw.keys[i];
        const double x = double(logit_of(own)), logprob = (x - top) - ln_mass;
        entries[i == listed ? 0 : i + 1 - (i > at_place)] = {uint32_t(own), i == listed ? rank : i + 1, is_logits ? x : logprob};
        if (i < listed) continue;
        Report& report = step.reports[draw.row];
        report.entry_count = 1 + listed - (at_place < listed);
        report.raw_mass = mass;
        report.raw_top = draw.x_max;
    }
}

// Writes the logprobs of the rows whose raw logprobs are asked for. It begins while they are drawn and
// summed; the first pass has ended then.
template <typename T>
__device__ __forceinline__ void tell_rows(const Step& step) {
    __shared__ Draw<T, BARE> draw;
    const uint32_t row = blockIdx.x;
    const Task task = step.tasks[row];
    uint32_t known = 0, wanted = 0;
    bool is_logits = false;
    if (task.is_raw) {
        begin_raw(draw, step, row);
        const Sequence& sequence = step.sequences[task.slot];
        wanted = listed_by_draw(min(__ldcg(&sequence.logprobs), step.width) - 1);
        is_logits = __ldcg(&sequence.logprobs_mode) == RAW_LOGITS;
        known = list_raw_best(draw, step, task, wanted);
    }
    let_the_next_begin();
    wait_for_the_one_before();
    if (!task.is_raw) return;
    const uint2 result = __ldcg(reinterpret_cast<const uint2*>(step.results + row));
    const uint64_t mass = __ldcg(step.raw_masses + row);
    if (result.y == DRAWN) write_raw_logprobs(draw, step, min(known, wanted), known, is_logits, result.x, mass, NOT_LISTED);
    // Prepares the arrays for the next step.
    __syncthreads();
    if (threadIdx.x == 0) {
        step.raw_masses[row] = 0;
        step.summits[row * SUMMIT_PITCH] = step.raw_summits[row * SUMMIT_PITCH] = 0;
    }
}
