// The first pass over the rows of a step: the largest logit of every block of 64 tokens (the "peak" of the
// block), and what else needs the whole row or nothing of it.
//
// The naive loop, for each row:
//
//     summit = -inf
//     for each block of 64 tokens:
//         peak[block] = -inf
//         for each token of the block:
//             if logit[token] is NaN or +inf: bad = min(bad, token)
//             if the masks allow the token: peak[block] = max(peak[block], logit[token])
//             if top-p is the first stage: sum[block] += 2^((logit[token] - reference) * scale)
//         summit = max(summit, peak[block])
//         gain[block] = -ln(smallest exponential of the block)
//     for each token of the sequence's list: edited[token] = what the edits make of logit[token]
//
// What this code does differently:
//
// 1. All threads read at once, sixteen bytes per thread and STEPS times, all reads issued before the first is
//    used. Maxima of 16-bit logits are taken as packed pairs (number/packed.cuh).
// 2. A block's logits are spread over 16 threads (8 for 16-bit types), and STEPS blocks are folded over these
//    threads together (`folded`): half of the values change hands in each exchange.
// 3. NaN is found by the maxima themselves (max.NaN), +inf by being the largest. Only a thread that has one
//    reads its logits again, to find the lowest id.
// 4. The row's summit is one atomic maximum per thread block, on integers in the order of the floats.
// 5. The first `noise_makers` thread blocks of a row read no logits: they make the gains of all blocks. The
//    next `editors` compute the edits. The row itself is not written, and the peaks are of unedited logits:
//    draw/repair.cuh corrects those of blocks with edited tokens.
// 6. Sums are f32 estimates, relative to the largest logit that the warp holds (its "reference").
// 7. The kernel lets the draw begin as soon as its reads are under way, and waits for the last step's draw
//    before it writes.
//
// Why this is exact:
//
// - A maximum does not depend on the order in which numbers are compared, and widening keeps the order (1, 2,
//   4). +0 and -0 may change places; keys do not tell them apart (number/number.cuh).
// - max.NaN is NaN if and only if an operand is (3), and the lowest bad id is an integer minimum. A masked
//   bad logit counts, as in crates/onedraw/src/reference/mod.rs: it is looked for before masks are applied.
// - Noise does not depend on logits, and an edit of a token depends on the token's own logit alone (5). Gains
//   and sums are used only as bounds and estimates, with a margin (MARGIN, SUM_ERROR in draw/limits.cuh); the draw
//   computes from exact noise and integer weights whatever they leave open (5, 6).
#pragma once

#include "../edit/edit.cuh"
#include "../number/packed.cuh"
#include "../number/warp.cuh"

// What the sequences of a batch need of the first pass, beside maxima.
enum Asked {
    // Nothing: the tasks are not read.
    MAXIMA = 0,
    // Masks, with the peaks before masks where raw logprobs are asked for, and sums for TOP_P.
    MASKS_AND_SUMS = 1,
};

// Looks for NaN and +inf among the logits of one read, and lowers `bad` to their lowest id. Both are rare, so
// the logits are read again here rather than checked one by one by every thread.
template <typename T>
__device__ __noinline__ void report_bad(const T* logits, uint32_t token, uint32_t vocabulary, uint32_t* bad) {
#pragma unroll 1
    for (uint32_t i = token; i < min(token + PACKED<T>, vocabulary); i++) {
        if (!(widened(logits[i]) < positive_infinity())) atomicMin(bad, i);
    }
}

// Raises a row's summit to the largest logit of the thread block, once: all warps raising it by themselves
// took 45.0 us instead of 37.0 for 256 rows, together with what SUMMIT_PITCH avoids.
__device__ __forceinline__ void raise_summit(uint32_t* summits, uint32_t row, float largest_of_own_warp) {
    __shared__ float tops[SKYLINE_THREADS / 32];
    const uint32_t lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    if (lane == 0) tops[warp] = largest_of_own_warp;
    __syncthreads();
    if (warp > 0) return;
    const float top = largest_of_warp(tops[lane % (SKYLINE_THREADS / 32)]);
    if (lane == 0) atomicMax(summits + row * SUMMIT_PITCH, summit_of(top));
}

// The lane of a block's smallest exponential is kept in the lowest six bits of the block's gain.
constexpr uint32_t LANE_BITS = 63;

// The noise of the blocks of a row: for each block its gain, -ln of its smallest exponential M = Exp(1) / 64,
// in f32, and the lane that has M. One thread makes four blocks, which share the words of one Philox call.
//
// The gain is off by the errors of `rough_exponential` (2^-14) and of the logarithm, and by the six bits that
// hold the lane: less than 2^-17 of a number that is 27 at most (-ln(2^-33 / 64)), which is 2^-12.2. Together
// that is below 2^-11; MARGIN is 2^-10. A gain is at least 1.02 (ln 64 - ln 22.9), so it is positive and its
// bits are in order.
__device__ __forceinline__ void make_noise(const Step& step, const Task& task) {
    constexpr float LN_64 = 4.158883083f;
    let_the_next_begin();
    const uint32_t row = blockIdx.y, four = blockIdx.x * SKYLINE_THREADS + threadIdx.x;
    const Sequence& sequence = step.sequences[task.slot];
    if (sequence.is_greedy || 4 * four >= step.pitch) return;
    const Noise noise = {sequence.seed, sequence.position + task.depth, sequence.sequence, sequence.round};
    const uint4 minima = words(noise, BLOCK_MINIMUM, four), lanes = words(noise, BLOCK_LANE, four);
    const auto gain = [](uint32_t minimum, uint32_t lane) {
        return __uint_as_float((__float_as_uint(LN_64 - rough_ln(rough_exponential(minimum))) & ~LANE_BITS) | lane >> 26);
    };
    reinterpret_cast<float4*>(step.gains + uint64_t(row) * step.pitch)[four] = make_float4(gain(minima.x, lanes.x), gain(minima.y, lanes.y), gain(minima.z, lanes.z), gain(minima.w, lanes.w));
}

// What edits make of the tokens of a row's list and of its draft, for the draw's table: step.editors thread
// blocks per row, EDITS_PER_THREAD tokens per thread. Together they cover EDIT_LIST_CAPACITY tokens.
template <typename T>
__device__ __forceinline__ void edit_tokens(const Step& step, const Task& task, uint32_t editor) {
    __shared__ Sequence sequence;
    __shared__ Place place;
    let_the_next_begin();
    if (EDIT_TABLE_CAPACITY == 0 || task.touched == nullptr) return;
    const uint32_t row = blockIdx.y, first = editor * SKYLINE_THREADS + threadIdx.x, pitch = step.editors * SKYLINE_THREADS, tokens = step.vocabulary;
    uint32_t token[EDITS_PER_THREAD];
    // These reads are under way together with that of the sequence, which says how long the list is: past its
    // end, the list's memory holds anything.
#pragma unroll
    for (uint32_t i = 0; i < EDITS_PER_THREAD; i++) token[i] = task.edit_list[first + i * pitch];
    if (threadIdx.x < sizeof(Sequence) / 8) reinterpret_cast<uint64_t*>(&sequence)[threadIdx.x] = reinterpret_cast<const uint64_t*>(step.sequences + task.slot)[threadIdx.x];
    if (threadIdx.x == 0) place = {&sequence, task.mask, task.path, task.depth, task.repeats};
    __syncthreads();
    const uint32_t listed = sequence.edit_list_length, all = listed + task.depth;
    // Too many for the table: the draw computes the edits of such a row by itself.
    if (all > EDIT_TABLE_CAPACITY) return;
    const T* const logits = static_cast<const T*>(step.logits) + int64_t(row) * step.stride;
    float x[EDITS_PER_THREAD];
    uint2 counted[EDITS_PER_THREAD];
    // All reads of logits and counts are issued before the first edit is computed.
#pragma unroll
    for (uint32_t i = 0; i < EDITS_PER_THREAD; i++) {
        const uint32_t entry = first + i * pitch;
        if (entry >= listed) token[i] = entry < all ? task.path[entry - listed] : 0xffffffffu;
        // A draft may guess an id that is no token. Such a guess is never accepted, so nobody reads the rows
        // after it.
        const bool is_one = token[i] < tokens;
        x[i] = is_one ? one(logits + token[i]) : 0.0f;
        counted[i] = is_one ? place.counted(token[i]) : make_uint2(0, 0);
    }
#pragma unroll
    for (uint32_t i = 0; i < EDITS_PER_THREAD; i++) {
        if (token[i] < tokens) step.edited[uint64_t(row) * EDIT_LIST_CAPACITY + first + i * pitch] = make_float2(x[i], Adjustment::edited(place, token[i], x[i], counted[i]));
    }
}

// Each thread reads sixteen bytes STEPS times; a warp takes step.group consecutive blocks.
template <typename T, int STEPS, bool ALIGNED, Asked ASKED, bool HAS_EDITS>
__device__ __forceinline__ void skyline(const Step& step) {
    // Threads that hold one block, and blocks that a warp reads at once.
    constexpr int THREADS = BLOCK / PACKED<T>, AT_ONCE = 32 / THREADS;
    const uint32_t row = blockIdx.y, lane = threadIdx.x & 31, warp = threadIdx.x >> 5, vocabulary = step.vocabulary;
    // Tasks are copied by the stream, not written by the kernel before: they may be read before the wait.
    Task task = {};
    const uint32_t others = step.noise_makers + (HAS_EDITS ? step.editors : 0);
    if (ASKED == MASKS_AND_SUMS || blockIdx.x < others) task = step.tasks[row];
    wait_for_the_one_before();
    if (blockIdx.x < step.noise_makers) return make_noise(step, task);
    if (HAS_EDITS && blockIdx.x < others) return edit_tokens<T>(step, task, blockIdx.x - step.noise_makers);
    const uint32_t group = (blockIdx.x - others) * (SKYLINE_THREADS / 32) + warp, first = group * (AT_ONCE * STEPS), token = first * BLOCK + PACKED<T> * lane;
    const T* const at = static_cast<const T*>(step.logits) + int64_t(row) * step.stride;
    uint4 x[STEPS];
#pragma unroll
    for (int i = 0; i < STEPS; i++) {
        const uint32_t here = token + i * AT_ONCE * BLOCK;
        x[i] = ALIGNED && here + PACKED<T> <= vocabulary ? sixteen_once(at + here) : gathered(at, here, vocabulary);
    }
    let_the_next_begin();
    const uint32_t *const mask = task.mask, *const allowed = task.allowed;
    const float scale = task.sum_scale;
    const bool is_raw = task.is_raw;
    float tops[STEPS];
#pragma unroll
    for (int i = 0; i < STEPS; i++) tops[i] = largest_or_nan<T>(x[i]);
    float all = tops[0];
#pragma unroll
    for (int i = 1; i < STEPS; i++) all = larger_or_nan(all, tops[i]);
    if (!(all < positive_infinity())) {
#pragma unroll 1
        for (int i = 0; i < STEPS; i++) report_bad<T>(at, token + i * AT_ONCE * BLOCK, vocabulary, step.bad_tokens + row);
    }
    const uint32_t own = first + AT_ONCE * held<STEPS, THREADS>(lane) + lane / THREADS;
    const bool writes = lane % (THREADS / STEPS) == 0 && own < step.pitch;
    const uint64_t place_of = uint64_t(row) * step.pitch + own;
    const auto maximum = [](float a, float b) { return fmaxf(a, b); };
    if (ASKED == MASKS_AND_SUMS && (mask != nullptr || allowed != nullptr)) {
        if (is_raw) {
            const float highest = largest_of_warp(all), raw = folded<STEPS, THREADS>(tops, lane, maximum);
            if (writes) step.raw_peaks[place_of] = raw;
            raise_summit(step.raw_summits, row, highest);
            __syncthreads();
        }
        all = negative_infinity();
#pragma unroll
        for (int i = 0; i < STEPS; i++) {
            const uint32_t here = token + i * AT_ONCE * BLOCK;
            if (here < vocabulary) x[i] = masked<T>(x[i], ((mask != nullptr ? mask[here / 32] : ~0u) & (allowed != nullptr ? allowed[here / 32] : ~0u)) >> here % 32);
            tops[i] = largest_or_nan<T>(x[i]);
            all = fmaxf(all, tops[i]);
        }
    }
    const float highest = largest_of_warp(all);
    if (ASKED == MASKS_AND_SUMS && scale != 0.0f) {
        // If nothing is alive, every logit is -inf: a finite reference keeps -inf - reference from being NaN.
        const float reference = fmaxf(highest, -LARGEST_FLOAT);
        float sums[STEPS];
#pragma unroll
        for (int i = 0; i < STEPS; i++) {
            float sum = 0.0f;
            over_packed<T>(x[i], [&](float x, uint32_t) { sum += power_of((x - reference) * scale); });
            sums[i] = sum;
        }
        const float sum = folded<STEPS, THREADS>(sums, lane, [](float a, float b) { return a + b; });
        if (writes) step.sums[place_of] = sum;
        if (lane == 0 && first < step.pitch) step.references[uint64_t(row) * step.pitch + group] = reference;
    }
    const float top = folded<STEPS, THREADS>(tops, lane, maximum);
    if (writes) step.peaks[place_of] = top;
    raise_summit(step.summits, row, highest);
}
