// Logprobs of what is left of a row after the chain, or the drawn token's probability alone, in two kernels: the draw lists the tokens that are
// reported (`report`, part of draw.cuh), then many thread blocks sum the whole row and complete the entries
// (`sum_report`).
//
// The naive loop, for one row, with the tokens that the chain keeps in a sorted list:
//
//     mass = sum of weight(token) over the kept tokens
//     for the drawn token and the first `logprobs` others: logprob = (x - x_max) / T - ln(mass / 2^43)
//     rank of the drawn token = 1 + the tokens before it
//
// What this code does differently:
//
// 1. The draw knows what is kept as three numbers: the last kept key, and the logits `above` and `lowest`
//    between which tokens are kept. It lists the best tokens with the race's own list (list.cuh), or by a
//    radix select where they do not fit.
// 2. The sums are taken by many thread blocks of REPORT_TOKENS tokens each, with the edits applied again; the
//    last one to arrive has all of it and writes the entries.
//
// Why this is exact: kept tokens are decided by comparing keys and logits, not by rounded sums (1); mass and
// rank are sums of integers, added by atomics, so it does not matter which thread block is the last (2). The
// logprobs follow by the CPU's operations in f64.
#pragma once

#include "draw.cuh"

template <typename T, Rows ROWS>
__device__ __noinline__ void Draw<T, ROWS>::report(uint32_t token) {
    const Key key = key_of(at(token), token);
    if (threadIdx.x == 0) {
        drawn = key;
        // A greedy row leaves one token.
        if (sequence.is_greedy) last = key;
    }
    __syncthreads();
    // Where the probability alone is asked for, or logprobs of the unmodified row beside it, nothing is listed
    // here.
    const bool lists = sequence.logprobs > 0 && !is_raw();
    const uint32_t wanted = lists ? min(sequence.logprobs, step_copy.width) - 1 : 0, listed = wanted > 0 ? min(best_listed(wanted), wanted) : 0;
    // Where the drawn token stands among them. Those that are kept come first.
    __syncthreads();
    if (threadIdx.x == 0) count = NOT_LISTED;
    __syncthreads();
    // Where the drawn token stands among the listed ones. Kept tokens come first in the list, so that
    // counting them is enough.
    uint32_t kept_ones = 0;
#pragma unroll 1
    for (uint32_t start = 0; start < listed; start += DRAW_THREADS) {
        const uint32_t i = start + threadIdx.x;
        const Key key = i < listed ? keys[i] : ~0ull;
        if (key == drawn) count = i;
        kept_ones += __syncthreads_count(i < listed && key <= last && passes(logit_of(key)));
    }
    const uint32_t at_place = count;
    // Logits for now: `sum_report` makes logprobs of them, and finds the drawn token's rank.
    Entry* const entries = step_copy.entries + uint64_t(row) * step_copy.width;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < kept_ones; i += DRAW_THREADS) {
        if (i != at_place) entries[i + 1 - (i > at_place)] = {uint32_t(keys[i]), i + 1, double(logit_of(keys[i]))};
    }
    if (threadIdx.x == 0) {
        entries[0] = {token, 0, double(logit_of(drawn))};
        step_copy.reports[row] = {drawn, last, 0, sequence.inverse, 0.0, above, lowest, x_max, sequence.scale, 0, 1 + kept_ones - (at_place < kept_ones), 0, 0};
    }
    __syncthreads();
}

template <typename T, Rows ROWS>
__device__ __noinline__ uint32_t Draw<T, ROWS>::best_listed(uint32_t wanted) {
    const uint32_t found = above == positive_infinity() ? list(wanted) : 0;
    if (found != 0) return found;
    // The list did not fit, or typical removed tokens at the top: find the key of the last wanted token, and
    // list what comes up to it. These are as many as are wanted, which fit.
    const float bottom = lowest;
    set_lowest(negative_infinity());
    const Key worst = select(0.0f, wanted - 1, key_end());
    const uint32_t reached = collect(logit_of(worst));
    __syncthreads();
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    over(reached, [&](float x, uint32_t id) {
        const Key key = key_of(x, id);
        append_key(key <= worst && x < above && x > negative_infinity(), key);
    });
    __syncthreads();
    const uint32_t listed = count;
    sort(listed);
    set_lowest(bottom);
    return listed;
}

// Writes the drawn token's probability once the mass is known, and, where `lists`, what the entries say, by
// one thread block. Other thread blocks wrote the entries, so they are read past the first cache (__ldcg).
__device__ __noinline__ void finish(Report& report, Entry* entries, uint64_t total, bool lists, bool is_logits) {
    const double top = double(__ldcg(&report.x_max)), inverse = __ldcg(&report.inverse);
    if (threadIdx.x == 0) {
        const double x = double(logit_of(__ldcg(&report.drawn)));
        report.probability = exponential_of((x - top) * inverse - ln(relative(total)));
    }
    const uint32_t listed = lists ? __ldcg(&report.entry_count) : 0;
    for (uint32_t i = threadIdx.x; i < listed; i += blockDim.x) {
        const double x = __ldcg(&entries[i].value), logprob = (x - top) * inverse - ln(relative(total));
        entries[i].value = is_logits ? x * inverse : logprob;
    }
}

// The sum over a thread block; only the first thread gets it.
__device__ __forceinline__ uint64_t sum_of_block(uint64_t own) {
    __shared__ uint64_t parts[REPORT_THREADS / 32];
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) own += __shfl_xor_sync(ALL_LANES, own, offset);
    if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = own;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (uint32_t i = 1; i < REPORT_THREADS / 32; i++) own += parts[i];
    }
    return own;
}

// Sums a part of a row, and completes the report of the row if this is the last part.
template <typename T>
__device__ __forceinline__ void sum_report(const Step& step) {
    __shared__ uint32_t is_last;
    const uint32_t row = blockIdx.y, vocabulary = step.vocabulary;
    const Task task = step.tasks[row];
    Sequence& sequence = step.sequences[task.slot];
    wait_for_the_one_before();
    if (!sequence.tells_probability || step.results[row].status != DRAWN) return;
    Report& report = step.reports[row];
    const Softmax softmax = {report.x_max, report.scale};
    const Key drawn = report.drawn, last = report.last;
    const float above = report.above, lowest = report.lowest;
    const Place place = {&sequence, task.mask, task.path, task.depth};
    const Adjustment adjustment = {task.mask, task.allowed, task.touched};
    const T* const logits = static_cast<const T*>(step.logits) + int64_t(row) * step.stride;
    const bool is_aligned = reinterpret_cast<uint64_t>(logits) % (4 * sizeof(T)) == 0;
    const float low = negative_infinity();
    uint64_t mass = 0;
    uint32_t before = 0;
#pragma unroll 2
    for (uint32_t i = 0; i < REPORT_TOKENS; i += 4 * REPORT_THREADS) {
        const uint32_t token = blockIdx.x * REPORT_TOKENS + 4 * threadIdx.x + i;
        if (token >= vocabulary) break;
        float4 x;
        if (is_aligned && token + 4 <= vocabulary) x = four(logits + token);
        else x = make_float4(one(logits + token), token + 1 < vocabulary ? one(logits + token + 1) : low, token + 2 < vocabulary ? one(logits + token + 2) : low, token + 3 < vocabulary ? one(logits + token + 3) : low);
        adjustment.apply(x, token, place, adjustment.word(token));
        const auto add = [&](float x, uint32_t id) {
            const Key key = key_of(x, id);
            if (key <= last && x >= lowest && x < above) mass += weight(softmax, x);
            before += key < drawn && x < above;
        };
        add(x.x, token);
        add(x.y, token + 1);
        add(x.z, token + 2);
        add(x.w, token + 3);
    }
    mass = sum_of_block(mass);
    __syncthreads();
    const uint32_t rank_here = uint32_t(sum_of_block(before));
    if (threadIdx.x == 0) {
        atomicAdd(reinterpret_cast<unsigned long long*>(&report.mass), mass);
        atomicAdd(&report.rank, rank_here);
        __threadfence();
        is_last = atomicAdd(&report.arrived, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    // The last thread block has the sums of all, and nobody reads the sequence any more, so it may move on.
    const uint64_t total = *reinterpret_cast<volatile uint64_t*>(&report.mass);
    const uint32_t rank = *reinterpret_cast<volatile uint32_t*>(&report.rank);
    Entry* const entries = step.entries + uint64_t(row) * step.width;
    // Raw logprobs are listed by a kernel of their own.
    const bool lists = sequence.logprobs > 0 && sequence.logprobs_mode > RAW_LOGITS;
    finish(report, entries, total, lists, sequence.logprobs_mode == PROCESSED_LOGITS);
    if (threadIdx.x == 0) {
        if (lists) entries[0].rank = rank + 1;
        if (step.advances) append(sequence, &sequence, step.results[row].token);
    }
}
