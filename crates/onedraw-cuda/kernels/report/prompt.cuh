// Logprobs of a prompt: row by row, of a token that is known. After the first pass, `sum_prompt` sums the rows with many
// thread blocks, and `tell_prompt` lists their best tokens and writes, one thread block for each row.
//
// The naive loop, for one row:
//
//     x_max = the largest logit; mass = sum of floor(2^((logit - x_max) * log2(e)) * 2^43) over all tokens
//     sort the tokens; list the known token with its rank, then the first `logprobs` others
//     logprob = (logit - x_max) - ln(mass / 2^43)
//
// What this code does differently from raw_logprobs.cuh, which says why it is exact: the token is known before the row
// is read a second time, so the tokens before it are counted in the same read, and nothing is drawn.
#pragma once

#include "raw_logprobs.cuh"

// Adds the mass of some steps of a row to the row's gauge, and how many of its tokens come before the known one.
template <typename T, bool ALIGNED>
__device__ __forceinline__ void sum_prompt_part(const Step& step, uint32_t row, uint32_t first, uint32_t end) {
    const uint32_t vocabulary = step.vocabulary, id = step.results[row].token;
    const T* const logits = static_cast<const T*>(step.logits) + int64_t(row) * step.stride;
    const float own = id < vocabulary ? one(logits + id) : negative_infinity();
    // Among equal logits the lower id comes first, as in `before_key`.
    const Key key = key_of(own, id);
    const float at_key = logit_of(key), after = logit_of_place(uint32_t(key >> 32) - 1), low = negative_infinity();
    Softmax softmax = {0.0f, LOG2_E_F32};
    uint64_t mass = 0;
    uint32_t before = 0;
    over_steps<T, ALIGNED, SUM_THREADS>(
        logits, vocabulary, first, end,
        [&] {
            wait_for_the_one_before();
            let_the_next_begin();
            softmax.x_max = logit_of_summit(__ldcg(step.summits + row * SUMMIT_PITCH));
        },
        [&](uint4 x, uint32_t token) {
            over_packed<T>(x, [&](float x, uint32_t i) {
                mass += weight_below(softmax, x);
                before += (x >= (token + i < id ? at_key : after)) & (x > low);
            });
        });
    mass = sum_of_block(mass);
    __syncthreads();
    before = uint32_t(sum_of_block(before));
    if (threadIdx.x == 0) {
        atomicAdd(reinterpret_cast<unsigned long long*>(&step.gauges[row].mass), mass);
        atomicAdd(&step.gauges[row].tokens, before);
    }
    __syncthreads();
}

template <typename T, bool ALIGNED>
__device__ __forceinline__ void sum_prompt(const Step& step) {
    over_share(step, [&](uint32_t row, uint32_t first, uint32_t end) { sum_prompt_part<T, ALIGNED>(step, row, first, end); });
}

// Writes the entries of one row, or what is wrong with it.
template <typename T>
__device__ __forceinline__ void tell_prompt(const Step& step) {
    __shared__ Draw<T, BARE> draw;
    const uint32_t row = blockIdx.x;
    const Task task = step.tasks[row];
    const uint32_t token = step.results[row].token;
    begin_raw(draw, step, row);
    const Sequence& sequence = step.sequences[task.slot];
    const uint32_t wanted = listed_by_draw(min(__ldcg(&sequence.logprobs), step.width) - 1);
    const bool is_logits = __ldcg(&sequence.logprobs_mode) == RAW_LOGITS;
    const uint32_t bad_token = __ldcg(step.bad_tokens + row), known = list_raw_best(draw, step, task, wanted);
    let_the_next_begin();
    wait_for_the_one_before();
    const uint64_t mass = __ldcg(&step.gauges[row].mass);
    const uint32_t before = __ldcg(&step.gauges[row].tokens);
    Outcome outcome = {token, DRAWN};
    if (bad_token != NO_TOKEN) {
        const float x = widened(draw.logits[bad_token]);
        outcome = {bad_token, x == x ? INFINITE_LOGIT : NAN_LOGIT};
    } else if (!(draw.x_max > negative_infinity())) {
        outcome = {NO_EDIT, NOTHING_LEFT};
    } else {
        write_raw_logprobs(draw, step, min(known, wanted), known, is_logits, token, mass, before);
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    step.results[row] = outcome;
    if (outcome.status == DRAWN) {
        const double x = double(one(draw.logits + token));
        step.reports[row].probability = exponential_of((x - double(draw.x_max)) - ln(relative(mass)));
    }
    // Prepares the arrays for the next step.
    step.bad_tokens[row] = NO_TOKEN;
    step.gauges[row] = {};
    step.summits[row * SUMMIT_PITCH] = step.raw_summits[row * SUMMIT_PITCH] = 0;
}
