// The first pass: one read of the rows as they came, or as masks leave them, and the largest logit of every block of 64 tokens. Edits of single tokens are made beside it; what they do to their blocks is the second pass's.
#pragma once

#include "edit.cuh"
#include "packed.cuh"

constexpr int SKYLINE_THREADS = 256;

// What the sequences of a batch ask of the first pass.
enum Asked {
    // Nothing: no sequence is looked at.
    MAXIMA = 0,
    // Masks, with raw logprobs of what they leave out, and masses for TOP_P.
    MASKS_AND_SUMS = 1,
};

// NaN or +inf: the lowest such id decides. Both are rare, so nobody else pays for them: the logits are read again.
template <typename T>
__device__ __noinline__ void report_bad(const T* logits, uint32_t token, uint32_t vocabulary, uint32_t* bad) {
#pragma unroll 1
    for (uint32_t i = token; i < min(token + PACKED<T>, vocabulary); i++) {
        if (!(widened(logits[i]) < __uint_as_float(0x7f800000u))) atomicMin(bad, i);
    }
}

__device__ __forceinline__ float largest(float4 v) { return fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)); }

// Folds each of N values over so many threads, so that each ends up with the value number `held`. Half of the values change hands at each
// step: N - 1 exchanges and what is left of all the steps, instead of that many each.
template <int N, int THREADS, typename Fold>
__device__ __forceinline__ float folded(float (&values)[N], uint32_t lane, Fold fold) {
    int offset = THREADS / 2;
#pragma unroll
    for (int left = N; left > 1; left /= 2) {
        const bool is_upper = lane & offset;
#pragma unroll
        for (int i = 0; i < left / 2; i++) {
            const float given = is_upper ? values[i] : values[i + left / 2], kept = is_upper ? values[i + left / 2] : values[i];
            values[i] = fold(kept, __shfl_xor_sync(0xffffffffu, given, offset));
        }
        offset /= 2;
    }
#pragma unroll
    for (; offset > 0; offset /= 2) values[0] = fold(values[0], __shfl_xor_sync(0xffffffffu, values[0], offset));
    return values[0];
}

// N is a power of two: the value's number is in the highest bits of the thread's.
template <int N, int THREADS>
__device__ __forceinline__ uint32_t held(uint32_t lane) {
    return lane % THREADS / (THREADS / N);
}

// The largest of a warp. The order of the bits is that of the numbers, for those above 0 and turned round for those below.
__device__ __forceinline__ int order_of(float x) {
    const int bits = __float_as_int(x);
    return bits ^ (bits >> 31 & 0x7fffffff);
}
__device__ __forceinline__ float number_of(int order) { return __int_as_float(order ^ (order >> 31 & 0x7fffffff)); }
__device__ __forceinline__ float largest_of_warp(float x) { return number_of(__reduce_max_sync(0xffffffffu, order_of(x))); }

// The same among unsigned numbers, above 0 for every number: what nobody has written is 0.
__device__ __forceinline__ uint32_t summit_of(float x) { return uint32_t(order_of(x)) ^ 0x80000000u; }
__device__ __forceinline__ float logit_of_summit(uint32_t summit) { return summit == 0 ? negative_infinity() : number_of(int(summit ^ 0x80000000u)); }

// Rows have their summits in lines of the cache of their own: who changes one waits for nobody else.
constexpr uint32_t SUMMIT_PITCH = 32;

// Raises a row's summit to the largest of a block of threads.
__device__ __forceinline__ void raise_summit(uint32_t* summits, uint32_t row, float largest_of_own_warp) {
    __shared__ float tops[SKYLINE_THREADS / 32];
    const uint32_t lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    if (lane == 0) tops[warp] = largest_of_own_warp;
    __syncthreads();
    if (warp > 0) return;
    const float top = largest_of_warp(tops[lane % (SKYLINE_THREADS / 32)]);
    if (lane == 0) atomicMax(summits + row * SUMMIT_PITCH, summit_of(top));
}

constexpr uint32_t LANE_BITS = 63;

// The noise of the blocks of a row, which hangs on no logit: a thread has four blocks, which share their words.
__device__ __forceinline__ void throw_dice(const Step& step, const Task& task) {
    constexpr float LN_64 = 4.158883083f;
    let_the_next_begin();
    const uint32_t row = blockIdx.y, four = blockIdx.x * SKYLINE_THREADS + threadIdx.x;
    const Sequence& sequence = step.sequences[task.slot];
    if (sequence.is_greedy || 4 * four >= step.pitch) return;
    const Noise noise = {sequence.seed, sequence.position + task.depth, sequence.sequence, sequence.round};
    const uint4 minima = words(noise, BLOCK_MINIMUM, four), lanes = words(noise, BLOCK_LANE, four);
    const auto luck = [](uint32_t minimum, uint32_t lane) {
        return __uint_as_float((__float_as_uint(LN_64 - rough_ln(rough_exponential(minimum))) & ~LANE_BITS) | lane >> 26);
    };
    reinterpret_cast<float4*>(step.lucks + uint64_t(row) * step.pitch)[four] = make_float4(luck(minima.x, lanes.x), luck(minima.y, lanes.y), luck(minima.z, lanes.z), luck(minima.w, lanes.w));
}

// What edits make of the tokens that a row's sequence lists and of those of its draft: by step.editors blocks of threads of a row, EDITED_EACH a thread; all of TABULATED.
constexpr uint32_t EDITED_EACH = 3;

template <typename T>
__device__ __forceinline__ void edit_tokens(const Step& step, const Task& task, uint32_t editor) {
    __shared__ Sequence sequence;
    let_the_next_begin();
    if (LINKED == 0 || task.touched == nullptr) return;
    const uint32_t row = blockIdx.y, first = editor * SKYLINE_THREADS + threadIdx.x, pitch = step.editors * SKYLINE_THREADS, tokens = step.vocabulary;
    uint32_t token[EDITED_EACH];
    // Under way together with the sequence. Past its end the list has anything.
#pragma unroll
    for (uint32_t i = 0; i < EDITED_EACH; i++) token[i] = task.list[first + i * pitch];
    if (threadIdx.x < sizeof(Sequence) / 8) reinterpret_cast<uint64_t*>(&sequence)[threadIdx.x] = reinterpret_cast<const uint64_t*>(step.sequences + task.slot)[threadIdx.x];
    __syncthreads();
    const uint32_t listed = sequence.listed, all = listed + task.depth;
    // The draw does such a row by itself.
    if (all > LINKED) return;
    const Place place = {&sequence, task.mask, task.path, task.depth};
    const T* const logits = static_cast<const T*>(step.logits) + int64_t(row) * step.stride;
    float x[EDITED_EACH];
    uint2 counted[EDITED_EACH];
    // All reads are under way together.
#pragma unroll
    for (uint32_t i = 0; i < EDITED_EACH; i++) {
        const uint32_t entry = first + i * pitch;
        if (entry >= listed) token[i] = entry < all ? task.path[entry - listed] : 0xffffffffu;
        // Nobody looks at the rows after a guess that is no token.
        const bool is_one = token[i] < tokens;
        x[i] = is_one ? one(logits + token[i]) : 0.0f;
        counted[i] = is_one ? place.counted(token[i]) : make_uint2(0, 0);
    }
#pragma unroll
    for (uint32_t i = 0; i < EDITED_EACH; i++) {
        if (token[i] < tokens) step.edited[uint64_t(row) * TABULATED + first + i * pitch] = make_float2(x[i], Adjustment::edited(place, token[i], x[i], counted[i]));
    }
}

// Each thread reads sixteen bytes STEPS times; a warp takes step.group blocks.
template <typename T, int STEPS, bool ALIGNED, Asked ASKED, bool EDITS>
__device__ __forceinline__ void skyline(const Step& step) {
    // Threads that hold a block, and blocks that a warp reads at once.
    constexpr int THREADS = BLOCK / PACKED<T>, AT_ONCE = 32 / THREADS;
    const uint32_t row = blockIdx.y, lane = threadIdx.x & 31, warp = threadIdx.x >> 5, vocabulary = step.vocabulary;
    // Nobody writes it meanwhile.
    Task task = {};
    const uint32_t others = step.dice + (EDITS ? step.editors : 0);
    if (ASKED == MASKS_AND_SUMS || blockIdx.x < others) task = step.tasks[row];
    wait_for_the_one_before();
    if (blockIdx.x < step.dice) return throw_dice(step, task);
    if (EDITS && blockIdx.x < others) return edit_tokens<T>(step, task, blockIdx.x - step.dice);
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
    if (!(all < __uint_as_float(0x7f800000u))) {
#pragma unroll 1
        for (int i = 0; i < STEPS; i++) report_bad<T>(at, token + i * AT_ONCE * BLOCK, vocabulary, step.bad + row);
    }
    const uint32_t own = first + AT_ONCE * held<STEPS, THREADS>(lane) + lane / THREADS;
    const bool writes = lane % (THREADS / STEPS) == 0 && own < step.pitch;
    const uint64_t place_of = uint64_t(row) * step.pitch + own;
    const auto maximum = [](float a, float b) { return fmaxf(a, b); };
    if (ASKED == MASKS_AND_SUMS && (mask != nullptr || allowed != nullptr)) {
        if (is_raw) {
            const float highest = largest_of_warp(all), raw = folded<STEPS, THREADS>(tops, lane, maximum);
            if (writes) step.raw_tops[place_of] = raw;
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
        // Nothing alive: everything is -inf, and 2^NaN must not be asked for.
        const float reference = fmaxf(highest, -3.402823466e+38f);
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
