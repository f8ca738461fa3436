// Logprobs of more tokens than a draw lists: the whole row is sorted, by one thread block for each row, after
// everything else of the step.
//
// The naive loop:
//
//     sort the tokens by (logit descending, id ascending); of a processed row those that are kept
//     list the first `logprobs` of them without the drawn token, with their ranks and logprobs
//
// What this code does differently: tokens are sorted by the bytes of their keys' upper halves, the lowest byte first
// (a radix sort). Each warp has a stretch of the tokens. For each byte, warps count their digits; the counts say where
// each warp's tokens of a digit begin; and each warp moves its tokens there, in their order.
//
// Why this is exact: tokens begin in the order of ids, and each pass keeps the order of equal digits. So at the end
// equal logits are in the order of their ids, which is the order of keys.
#pragma once

#include "../draw/limits.cuh"
#include "../text/history.cuh"
#include "left.cuh"

constexpr uint32_t DIGITS = 256, SORT_WARPS = SORT_THREADS / 32;

// How many of so many wanted tokens the draw lists: none where the whole row is sorted.
__device__ __forceinline__ uint32_t listed_by_draw(uint32_t wanted) { return wanted <= MAX_LISTED ? wanted : 0; }

// Whether a row is sorted as its chain left it. Edits are made once more for this, so its sequence moves on here.
__device__ __forceinline__ bool is_sorted_last(const Sequence& sequence) { return sequence.logprobs > MAX_LISTED + 1 && sequence.logprobs_mode > RAW_LOGITS; }

// Sorts keys by one byte of their upper halves. `offsets` has a number for each warp and digit.
__device__ __noinline__ void sort_by_digit(const Key* from, Key* to, uint32_t count, uint32_t shift, uint32_t (*offsets)[DIGITS]) {
    const uint32_t lane = threadIdx.x & 31, warp = threadIdx.x >> 5, stretch = (count / 32 + SORT_WARPS - 1) / SORT_WARPS * 32, first = warp * stretch, end = min(first + stretch, count);
    const auto digit_of = [shift](Key key) { return uint32_t(key >> shift) % DIGITS; };
    for (uint32_t i = lane; i < DIGITS; i += 32) offsets[warp][i] = 0;
    __syncwarp();
    for (uint32_t i = first + lane; i < end; i += 32) atomicAdd(&offsets[warp][digit_of(from[i])], 1);
    __syncthreads();
    // Where the tokens of each digit begin, first of all warps together, then of each.
    __shared__ uint32_t sums[SORT_WARPS];
    uint32_t own = 0;
    for (uint32_t i = 0; threadIdx.x < DIGITS && i < SORT_WARPS; i++) own += offsets[i][threadIdx.x];
    uint32_t upto = own;
#pragma unroll
    for (int offset = 1; offset < 32; offset <<= 1) {
        const uint32_t other = __shfl_up_sync(ALL_LANES, upto, offset);
        if (lane >= offset) upto += other;
    }
    if (lane == 31) sums[warp] = upto;
    __syncthreads();
    uint32_t begin = upto - own;
    for (uint32_t i = 0; i < warp; i++) begin += sums[i];
    for (uint32_t i = 0; threadIdx.x < DIGITS && i < SORT_WARPS; i++) {
        const uint32_t of_warp = offsets[i][threadIdx.x];
        offsets[i][threadIdx.x] = begin;
        begin += of_warp;
    }
    __syncthreads();
#pragma unroll 1
    for (uint32_t at = first; at < end; at += 32) {
        // The count is a multiple of 32, so all lanes have a key.
        const Key key = from[at + lane];
        const uint32_t digit = digit_of(key);
        uint32_t same = ALL_LANES;
#pragma unroll
        for (uint32_t bit = 1; bit < DIGITS; bit <<= 1) {
            const uint32_t set = __ballot_sync(ALL_LANES, digit & bit);
            same &= digit & bit ? set : ~set;
        }
        const uint32_t base = offsets[warp][digit];
        __syncwarp();
        to[base + __popc(same & ((1u << lane) - 1))] = key;
        if (lane == __ffs(same) - 1) offsets[warp][digit] = base + __popc(same);
        __syncwarp();
    }
    __syncthreads();
}

template <typename T>
__device__ __forceinline__ void list_all(const Step& step) {
    __shared__ uint32_t offsets[SORT_WARPS][DIGITS];
    __shared__ uint32_t alive, drawn_place;
    __shared__ Place place;
    const uint32_t row = blockIdx.x, tokens = step.pitch * BLOCK;
    const Task task = step.tasks[row];
    wait_for_the_one_before();
    Sequence& sequence = step.sequences[task.slot];
    const Outcome outcome = step.results[row];
    const uint32_t wanted = min(sequence.logprobs, step.width) - 1;
    if (sequence.logprobs == 0 || listed_by_draw(wanted) == wanted || outcome.status != DRAWN) return;
    Report& report = step.reports[row];
    const bool is_raw = task.is_raw, is_logits = sequence.logprobs_mode == RAW_LOGITS || sequence.logprobs_mode == PROCESSED_LOGITS;
    if (threadIdx.x == 0) place = {&sequence, task.mask, task.path, task.depth, task.repeats};
    __syncthreads();
    const LeftRow<T> left(step, row, task, sequence, report, place);
    Key *const keys = step.sorting + 2 * uint64_t(row) * tokens, *const other = keys + tokens;
    if (threadIdx.x == 0) {
        alive = 0;
        drawn_place = NOT_LISTED;
    }
    __syncthreads();
    uint32_t own = 0;
#pragma unroll 1
    for (uint32_t token = threadIdx.x; token < tokens; token += SORT_THREADS) {
        float x = negative_infinity();
        if (is_raw) {
            if (token < step.vocabulary) x = one(left.logits + token);
        } else {
            const float4 four = left.four_at(token & ~3u);
            x = token % 4 == 0 ? four.x : token % 4 == 1 ? four.y : token % 4 == 2 ? four.z : four.w;
            if (!left.is_kept(x, token)) x = negative_infinity();
        }
        const bool is_one = x > negative_infinity();
        own += is_one;
        keys[token] = is_one ? key_of(x, token) : ~0ull;
    }
    atomicAdd(&alive, own);
    __syncthreads();
#pragma unroll 1
    for (uint32_t turn = 0; turn < 4; turn++) sort_by_digit(turn % 2 ? other : keys, turn % 2 ? keys : other, tokens, 32 + 8 * turn, offsets);
    const uint32_t listed = min(alive, wanted);
    for (uint32_t i = threadIdx.x; i < listed; i += SORT_THREADS) {
        if (uint32_t(keys[i]) == outcome.token) drawn_place = i;
    }
    __syncthreads();
    const uint32_t at_place = drawn_place;
    const double top = double(is_raw ? report.raw_top : report.x_max), inverse = is_raw ? 1.0 : report.inverse, ln_mass = ln(relative(is_raw ? report.raw_mass : report.mass));
    Entry* const entries = step.entries + uint64_t(row) * step.width;
    for (uint32_t i = threadIdx.x; i < listed; i += SORT_THREADS) {
        if (i == at_place) continue;
        const double x = double(logit_of(keys[i]));
        entries[i + 1 - (i > at_place)] = {uint32_t(keys[i]), i + 1, is_logits ? x * inverse : (x - top) * inverse - ln_mass};
    }
    if (threadIdx.x != 0) return;
    report.entry_count = 1 + listed - (at_place < listed);
    if (step.advances && is_sorted_last(sequence)) append(sequence, &sequence, outcome.token);
}
