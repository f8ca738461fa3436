// Logprobs of a row as it came, which hang on the draw only by its token: its best tokens and its mass are found while it is drawn.
#pragma once

#include "report.cuh"

// Tokens that are listed at least, so that a drawn one's rank is its place: most drawn tokens are among the first.
constexpr uint32_t RANKED = 16;

// The mass of rows whose raw logprobs are asked for. It hangs on nothing that is drawn, so it goes on beside the draw, after which it is launched.
template <typename T, bool ALIGNED>
__device__ __forceinline__ void weigh_rows(const Step& step) {
    const uint32_t number = blockIdx.y, vocabulary = step.vocabulary;
    const Task task = step.tasks[number];
    const bool is_raw = task.is_raw, is_masked = task.mask != nullptr || task.allowed != nullptr;
    const T* const logits = static_cast<const T*>(step.logits) + int64_t(number) * step.stride;
    // Each block of threads has a part, and takes a step of it while the next is under way.
    constexpr uint32_t AT_ONCE = 16 / PACKED<T>, STRETCH = PACKED<T> * REPORT_THREADS, STEP = AT_ONCE * STRETCH;
    const uint32_t steps = (vocabulary + STEP - 1) / STEP, begin = uint32_t(uint64_t(blockIdx.x) * steps / gridDim.x), end = uint32_t(uint64_t(blockIdx.x + 1) * steps / gridDim.x);
    let_the_next_begin();
    // The draw has waited for the first pass and is under way. Nothing of what it writes is read here; all the same this ends after it.
    if (is_raw) {
        uint4 x[AT_ONCE], ahead[AT_ONCE];
        const auto fetch = [&](uint4 (&x)[AT_ONCE], uint32_t at) {
#pragma unroll
            for (uint32_t i = 0; i < AT_ONCE; i++) {
                const uint32_t token = at * STEP + i * STRETCH + PACKED<T> * threadIdx.x;
                x[i] = ALIGNED && token + PACKED<T> <= vocabulary ? sixteen_once(logits + token) : gathered(logits, token, vocabulary);
            }
        };
        uint64_t mass = 0;
        if (begin < end) fetch(ahead, begin);
        const Softmax softmax = {logit_of_summit(__ldcg((is_masked ? step.raw_summits : step.summits) + number * SUMMIT_PITCH)), 1.44269504f};
#pragma unroll 1
        for (uint32_t at = begin; at < end; at++) {
#pragma unroll
            for (uint32_t i = 0; i < AT_ONCE; i++) x[i] = ahead[i];
            if (at + 1 < end) fetch(ahead, at + 1);
            // What is past the end weighs nothing.
#pragma unroll
            for (uint32_t i = 0; i < AT_ONCE; i++) over_packed<T>(x[i], [&](float x, uint32_t) { mass += weight_below(softmax, x); });
        }
        mass = sum_of_block(mass);
        if (threadIdx.x == 0) atomicAdd(reinterpret_cast<unsigned long long*>(&step.weights[number]), mass);
    }
    if (blockIdx.x == 0 && number == 0) wait_for_the_one_before();
}

template <typename T, Rows ROWS>
__device__ __forceinline__ uint32_t Draw<T, ROWS>::look(const Step& step, const Task& task, uint32_t wanted) {
    const bool is_masked = task.mask != nullptr || task.allowed != nullptr;
    fetch_peaks(highest(), (is_masked ? step.raw_tops : step.peaks) + uint64_t(number) * step.pitch, step.pitch);
    __pipeline_commit();
    const float top = logit_of_summit(__ldcg((is_masked ? step.raw_summits : step.summits) + number * SUMMIT_PITCH));
    if (threadIdx.x == 0) {
        pitch = step.pitch;
        summit = x_max = top;
        last = key_end();
        above = __uint_as_float(0x7f800000u);
        lowest = negative_infinity();
    }
    __pipeline_wait_prior(0);
    __syncthreads();
    // NaN and +inf are above what is below: nothing is drawn from such a row, nor from one without a token.
    const bool is_sound = top > negative_infinity() && top < __uint_as_float(0x7f800000u);
    return is_sound ? best_listed(max(wanted, RANKED)) : 0;
}

template <typename T, Rows ROWS>
__device__ __forceinline__ void Draw<T, ROWS>::tell(const Step& step, uint32_t listed, uint32_t known, bool is_logits, uint32_t token, uint64_t mass) {
    __syncthreads();
    if (threadIdx.x == 0) count = ALL;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < known; i += DRAW_THREADS) {
        if (uint32_t(keys[i]) == token) count = i;
    }
    __syncthreads();
    const uint32_t at_place = count;
    // Its rank is its place among the best, or what comes before it is counted.
    const Key key = at_place != ALL ? keys[at_place] : key_of(one(logits + token), token);
    const uint32_t rank = at_place != ALL ? at_place + 1 : tokens_before(key) + 1;
    const double top = double(x_max), ln_mass = ln(relative(mass));
    Entry* const entries = step.entries + uint64_t(number) * step.width;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i <= listed; i += DRAW_THREADS) {
        // The last thread has the drawn one.
        if (i < listed && i == at_place) continue;
        const Key own = i == listed ? key : keys[i];
        const double x = double(logit_of(own)), logprob = (x - top) - ln_mass;
        entries[i == listed ? 0 : i + 1 - (i > at_place)] = {uint32_t(own), i == listed ? rank : i + 1, is_logits ? x : logprob};
        if (i < listed) continue;
        Report& report = step.reports[number];
        report.probability = exponential_of(logprob);
        report.listed = 1 + listed - (at_place < listed);
    }
}

// Tells of the rows whose raw logprobs are asked for. It begins while they are drawn and summed: the first pass is done then.
template <typename T>
__device__ __forceinline__ void tell_rows(const Step& step) {
    __shared__ Draw<T, BARE> draw;
    const uint32_t number = blockIdx.x;
    const Task task = step.tasks[number];
    uint32_t known = 0, wanted = 0;
    bool is_logits = false;
    if (task.is_raw) {
        if (threadIdx.x == 0) {
            draw.number = number;
            draw.vocabulary = step.vocabulary;
            draw.room = (step.pitch + ROUND_UP - 1) / ROUND_UP * ROUND_UP;
            draw.logits = static_cast<const T*>(step.logits) + int64_t(number) * step.stride;
        }
        __syncthreads();
        const Sequence& sequence = step.sequences[task.slot];
        wanted = min(__ldcg(&sequence.logprobs), step.width) - 1;
        is_logits = __ldcg(&sequence.logprobs_mode) == RAW_LOGITS;
        known = draw.look(step, task, wanted);
    }
    let_the_next_begin();
    wait_for_the_one_before();
    if (!task.is_raw) return;
    const uint2 result = __ldcg(reinterpret_cast<const uint2*>(step.results + number));
    const uint64_t mass = __ldcg(step.weights + number);
    if (result.y == DRAWN) draw.tell(step, min(known, wanted), known, is_logits, result.x, mass);
    // For the next step.
    __syncthreads();
    if (threadIdx.x == 0) {
        step.weights[number] = 0;
        step.summits[number * SUMMIT_PITCH] = step.raw_summits[number * SUMMIT_PITCH] = 0;
    }
}

template <typename T, Rows ROWS>
__device__ __noinline__ uint32_t Draw<T, ROWS>::tokens_before(Key key) {
    uint32_t before = 0;
    before_key(key, [&](float4, bool4 is_before) { before += is_before.x + is_before.y + is_before.z + is_before.w; });
    return tallied(make_uint2(before, 0)).x;
}
