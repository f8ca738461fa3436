// What is left of a row after the chain: its logprobs, the drawn token's probability, the kept tokens. The draw lists the
// tokens that are reported, and sums what is left where that is little (`report`); of other rows many
// thread blocks sum everything and complete the entries (`sum_report`).
//
// The naive loop, for one row, with the tokens that the chain keeps in a sorted list:
//
//     mass = sum of weight(token) over the kept tokens; count = how many they are; kept_last = the last of them
//     for the drawn token and the first `logprobs` others: logprob = (x - x_max) / T - ln(mass / 2^43)
//     rank of the drawn token = 1 + the tokens before it
//
// What this code does differently:
//
// 1. The draw knows what is kept as four numbers: the last key, the logits `above` and `lowest` between which tokens
//    are kept, and XTC's `head`. It lists the best tokens (`best_listed` in
//    stages/search.cuh). Where few blocks have a kept token, it also sums them by itself.
//    Where the token was drawn from a short list (draw/few.cuh), that list has all kept tokens already (`left_listed`).
// 2. The sums are taken by many thread blocks of REPORT_TOKENS tokens each, with the edits applied again; the
//    last one to arrive has all of it and writes the entries.
// 3. The kept tokens are one bit each, in the order of ids: the host reads them only where they are asked for.
//
// Why this is exact: kept tokens are decided by comparing keys and logits, not by rounded sums (1); mass and
// rank are sums of integers, added by atomics, so it does not matter which thread block is the last (2). The
// logprobs follow by the CPU's operations in f64.
#pragma once

#include "../draw/blocks.cuh"
#include "../rows/sum.cuh"
#include "../stages/search.cuh"
#include "../text/history.cuh"
#include "left.cuh"
#include "list_all.cuh"

// Blocks with a kept token, up to which the draw sums by itself: 16,384 tokens, 32 for each thread.
constexpr uint32_t FEW_BLOCKS = 256;
// In place of the number of thread blocks that have added their sums: nothing is left to add.
constexpr uint32_t ALL_ARRIVED = 0xffffffffu;

// Writes the drawn token's probability once the mass is known, and, where `lists`, what the entries say, by
// one thread block. Other thread blocks wrote the entries, so they are read past the first cache (__ldcg).
__device__ __noinline__ void complete(Report& report, Entry* entries, uint64_t total, bool lists, bool is_logits) {
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

// The mass of what is left, the last kept token, how many there are, and how many tokens come before the drawn one.
struct Left {
    uint64_t mass;
    Key last;
    uint32_t count, rank;
};

// What is left, summed by this thread block where it is in few blocks; a mass of 0 where it is not.
template <typename Draw>
__device__ __noinline__ Left left_here(Draw& draw) {
    const uint32_t reached = collect(draw, logit_of(draw.last));
    if (reached > FEW_BLOCKS) return {};
    const bool has_ids = draw.sequence.kept == KEEP_IDS;
    uint32_t* const bits = draw.step_copy.kept_bits + uint64_t(draw.row) * draw.pitch * (BLOCK / 32);
#pragma unroll 1
    for (uint32_t i = threadIdx.x; has_ids && i < draw.pitch * (BLOCK / 32); i += DRAW_THREADS) bits[i] = 0;
    __syncthreads();
    const Softmax softmax = {draw.x_max, draw.sequence.scale};
    const Key end = draw.last, own = draw.drawn;
    uint64_t mass = 0, counts = 0;
    Key latest = 0;
    over(draw, reached, [&](float x, uint32_t token) {
        const Key key = key_of(x, token);
        const bool is_left = draw.passes(x, token), is_kept = key <= end && is_left;
        mass += is_kept ? weight(softmax, x) : 0;
        counts += is_kept + (uint64_t(key < own && is_left) << 32);
        latest = is_kept && key > latest ? key : latest;
        // All lanes of the warp come here, with 32 consecutive tokens.
        const uint32_t kept_lanes = __ballot_sync(ALL_LANES, is_kept);
        if (has_ids && (threadIdx.x & 31) == 0) bits[token / 32] = kept_lanes;
    });
    const Census all = draw.sum(counts, mass);
    return {all.mass, draw.largest_key(latest), uint32_t(all.count), uint32_t(all.count >> 32)};
}

// The same by the list that the token was drawn from, whose first tokens of the order are those that are kept.
template <typename Draw>
__device__ __noinline__ Left left_listed(Draw& draw) {
    const Softmax softmax = {draw.x_max, draw.sequence.scale};
    uint32_t* const bits = draw.step_copy.kept_bits + uint64_t(draw.row) * draw.pitch * (BLOCK / 32);
    const bool has_ids = draw.sequence.kept == KEEP_IDS;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; has_ids && i < draw.pitch * (BLOCK / 32) / 4; i += DRAW_THREADS) reinterpret_cast<uint4*>(bits)[i] = {};
    __syncthreads();
    const Key key = threadIdx.x < draw.told_list ? draw.keys[threadIdx.x] : ~0ull;
    const bool is_kept = key <= draw.last;
    if (has_ids && is_kept) atomicOr(bits + uint32_t(key) / 32, 1u << uint32_t(key) % 32);
    const Census all = draw.sum(is_kept + (uint64_t(key < draw.drawn) << 32), is_kept ? weight(softmax, logit_of(key)) : 0);
    return {all.mass, draw.last, uint32_t(all.count), uint32_t(all.count >> 32)};
}

// Reports of what is left of the row; where that is much, `sum_report` completes it.
template <typename Draw>
__device__ __noinline__ void report(Draw& draw, uint32_t token) {
    const Key key = key_of(draw.at(token), token);
    if (threadIdx.x == 0) {
        draw.drawn = key;
        // A greedy row leaves one token.
        if (draw.sequence.is_greedy) draw.last = key;
    }
    __syncthreads();
    const bool is_prefix = draw.sequence.prefixes >> draw.has_mask() & 1;
    const Left left = draw.told_list != 0 ? left_listed(draw) : left_here(draw);
    if (threadIdx.x == 0) draw.is_summed_here = left.mass != 0;
    __syncthreads();
    // Where the probability alone is asked for, or logprobs of the unmodified row beside it, nothing is listed
    // here.
    const bool lists = draw.sequence.logprobs > 0 && !draw.is_raw();
    const uint32_t wanted = lists ? listed_by_draw(min(draw.sequence.logprobs, draw.step_copy.width) - 1) : 0, listed = wanted > 0 ? min(best_listed(draw, wanted), wanted) : 0;
    // Where the drawn token stands among them. Those that are kept come first.
    __syncthreads();
    if (threadIdx.x == 0) draw.count = NOT_LISTED;
    __syncthreads();
    // Where the drawn token stands among the listed ones. Kept tokens come first in the list, so that
    // counting them is enough.
    uint32_t kept_ones = 0;
#pragma unroll 1
    for (uint32_t start = 0; start < listed; start += DRAW_THREADS) {
        const uint32_t i = start + threadIdx.x;
        const Key key = i < listed ? draw.keys[i] : ~0ull;
        if (key == draw.drawn) draw.count = i;
        kept_ones += __syncthreads_count(i < listed && key <= draw.last && draw.passes(logit_of(key), uint32_t(key)));
    }
    const uint32_t at_place = draw.count;
    // Logits for now: `sum_report` makes logprobs of them, and finds the drawn token's rank.
    Entry* const entries = draw.step_copy.entries + uint64_t(draw.row) * draw.step_copy.width;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < kept_ones; i += DRAW_THREADS) {
        if (i != at_place) entries[i + 1 - (i > at_place)] = {uint32_t(draw.keys[i]), i + 1, double(logit_of(draw.keys[i]))};
    }
    if (threadIdx.x == 0) {
        entries[0] = {token, 0, double(logit_of(draw.drawn))};
        draw.step_copy.reports[draw.row] = {draw.drawn, draw.last, draw.head, is_prefix ? left.last : 0, left.mass, 0, draw.sequence.inverse, 0.0, draw.next_mu, draw.above, draw.lowest, draw.x_max, draw.sequence.scale, left.rank, 1 + kept_ones - (at_place < kept_ones), draw.is_summed_here ? ALL_ARRIVED : 0, draw.bend_top, draw.desk != nullptr, left.count, 0.0f, 0};
        if (draw.is_summed_here) entries[0].rank = left.rank + 1;
    }
    __syncthreads();
    if (draw.is_summed_here) complete(draw.step_copy.reports[draw.row], entries, left.mass, lists, draw.sequence.logprobs_mode == PROCESSED_LOGITS);
}

// Sums a part of a row, and completes the report of the row if this is the last part.
template <typename T>
__device__ __forceinline__ void sum_report(const Step& step) {
    __shared__ uint32_t is_last;
    __shared__ Place place;
    const uint32_t row = blockIdx.y;
    const Task task = step.tasks[row];
    Sequence& sequence = step.sequences[task.slot];
    wait_for_the_one_before();
    if (!sequence.is_told || step.results[row].status != DRAWN) return;
    Report& report = step.reports[row];
    if (__ldcg(&report.arrived) == ALL_ARRIVED) return;
    const Softmax softmax = {report.x_max, report.scale};
    const Key drawn = report.drawn;
    if (threadIdx.x == 0) place = {&sequence, task.mask, task.path, task.depth, task.repeats};
    __syncthreads();
    const LeftRow<T> left(step, row, task, sequence, report, place);
    const bool has_ids = sequence.kept == KEEP_IDS, is_prefix = sequence.prefixes >> (task.mask != nullptr || task.late_mask != nullptr) & 1;
    uint32_t* const kept_bits = step.kept_bits + uint64_t(row) * step.pitch * (BLOCK / 32);
    uint64_t mass = 0, counts = 0;
    Key latest = 0;
#pragma unroll 2
    for (uint32_t i = 0; i < REPORT_TOKENS; i += 4 * REPORT_THREADS) {
        const uint32_t token = blockIdx.x * REPORT_TOKENS + 4 * threadIdx.x + i;
        // All lanes that share words of ids go on together, and ids past the vocabulary have their bits too.
        if (token - 4 * (threadIdx.x & 31) >= step.pitch * BLOCK) break;
        const float4 x = left.four_at(token);
        uint32_t own_bits = 0;
        const auto add = [&](float x, uint32_t id) {
            const Key key = key_of(x, id);
            const bool is_left = left.is_left(x, id), is_kept = left.is_kept(x, id);
            if (is_kept) mass += weight(softmax, x);
            counts += is_kept + (uint64_t(key < drawn && is_left) << 32);
            latest = is_kept && key > latest ? key : latest;
            own_bits |= uint32_t(is_kept) << id % 32;
        };
        add(x.x, token);
        add(x.y, token + 1);
        add(x.z, token + 2);
        add(x.w, token + 3);
        if (has_ids) {
            // Eight lanes have the bits of a word.
#pragma unroll
            for (int offset = 4; offset > 0; offset >>= 1) own_bits |= __shfl_xor_sync(ALL_LANES, own_bits, offset);
            if (threadIdx.x % 8 == 0 && token < step.pitch * BLOCK) kept_bits[token / 32] = own_bits;
        }
    }
    mass = sum_of_block(mass);
    __syncthreads();
    counts = sum_of_block(counts);
    if (is_prefix && latest != 0) atomicMax(reinterpret_cast<unsigned long long*>(&report.kept_last), (unsigned long long)latest);
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(reinterpret_cast<unsigned long long*>(&report.mass), mass);
        atomicAdd(&report.rank, uint32_t(counts >> 32));
        atomicAdd(&report.kept_count, uint32_t(counts));
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
    complete(report, entries, total, lists, sequence.logprobs_mode == PROCESSED_LOGITS);
    if (threadIdx.x == 0) {
        if (lists) entries[0].rank = rank + 1;
        if (step.advances && !is_sorted_last(sequence)) append(sequence, &sequence, step.results[row].token);
    }
}
