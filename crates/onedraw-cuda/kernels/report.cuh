// Logprobs: which tokens are listed (part of draw.cuh), then the sums over the whole row, by many blocks of threads.
#pragma once

#include "draw.cuh"

// Tokens that one block of threads sums.
constexpr uint32_t REPORTED = 8192;

template <typename T, bool BARE>
__device__ __noinline__ void Draw<T, BARE>::report(uint32_t token) {
    const bool raw = row.logprobs_mode <= RAW_LOGITS;
    // Read ahead.
    const Key key = key_of(raw ? one(logits + token) : at(token), token);
    if (raw) become_raw();
    if (threadIdx.x == 0) {
        drawn = key;
        if (raw) last = key_end();
        // A greedy row leaves one token.
        else if (row.is_greedy) last = key;
    }
    __syncthreads();
    const uint32_t wanted = min(row.logprobs, asked.width) - 1, listed = wanted > 0 ? min(best_listed(wanted), wanted) : 0;
    // Where the drawn token stands among them. Those that are kept come first.
    __syncthreads();
    if (threadIdx.x == 0) count = ALL;
    __syncthreads();
    uint32_t kept_ones = 0;
#pragma unroll 1
    for (uint32_t start = 0; start < listed; start += DRAW_THREADS) {
        const uint32_t i = start + threadIdx.x;
        const Key key = i < listed ? keys[i] : ~0ull;
        if (key == drawn) count = i;
        kept_ones += __syncthreads_count(i < listed && key <= last && passes(logit_of(key)));
    }
    const uint32_t at_place = count;
    // That of a token of a raw row is its rank, or what comes before it is counted; others' are found with their sums.
    const uint32_t rank = !raw ? 0 : at_place != ALL ? at_place + 1 : tokens_before(drawn) + 1;
    tell(kept_ones, at_place, rank);
}

template <typename T, bool BARE>
__device__ __noinline__ void Draw<T, BARE>::become_raw() {
    // Where nothing was masked or edited, what is known of the blocks is that of the row as it came.
    __syncthreads();
    if (!is_bare && has_raw) {
        for (uint32_t quad = threadIdx.x; quad < room / 4; quad += DRAW_THREADS) reinterpret_cast<float4*>(highest())[quad] = reinterpret_cast<const float4*>(masses())[quad];
    } else if (!is_bare) {
        const bool is_masked = adjustment.mask != nullptr || adjustment.allowed != nullptr;
        fetch_peaks(highest(), (is_masked ? asked.raw_tops : asked.peaks) + uint64_t(number) * pitch, pitch);
        __pipeline_commit();
        if (is_masked && threadIdx.x == 0) summit = logit_of_summit(__ldcg(asked.raw_summits + number * SUMMIT_PITCH));
        __pipeline_wait_prior(0);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        is_bare = true;
        x_max = summit;
        above = __uint_as_float(0x7f800000u);
        lowest = negative_infinity();
    }
    __syncthreads();
}

template <typename T, bool BARE>
__device__ __noinline__ uint32_t Draw<T, BARE>::best_listed(uint32_t wanted) {
    const uint32_t found = above == __uint_as_float(0x7f800000u) ? list(wanted) : 0;
    if (found != 0) return found;
    // By the key of the last one: no more than are wanted come before it.
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

template <typename T, bool BARE>
__device__ __noinline__ void Draw<T, BARE>::tell(uint32_t kept_ones, uint32_t at_place, uint32_t rank) {
    const bool raw = row.logprobs_mode <= RAW_LOGITS, is_logits = row.logprobs_mode == RAW_LOGITS;
    Report& report = asked.reports[number];
    Entry* const entries = asked.entries + uint64_t(number) * asked.width;
    // The sums of a raw row are all there most often when few rows are drawn.
    uint64_t mass = 0;
    bool is_weighed = false;
    if (raw && asked.parts > 0) {
        const uint32_t arrived = acquired(&asked.weights[number].arrived);
        mass = __ldcg(&asked.weights[number].mass);
        is_weighed = arrived == 2 * asked.parts;
    }
    is_weighed = __syncthreads_and(is_weighed);
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i <= kept_ones; i += DRAW_THREADS) {
        if (i < kept_ones && i == at_place) continue;
        const Key key = i == kept_ones ? drawn : keys[i];
        const double x = double(logit_of(key)), logprob = is_weighed ? (x - double(x_max)) - ln(relative(mass)) : 0.0;
        const double value = is_weighed && !is_logits ? logprob : x;
        if (i < kept_ones) {
            entries[i + 1 - (i > at_place)] = {uint32_t(key), i + 1, value};
            continue;
        }
        entries[0] = {uint32_t(key), rank, value};
        report = {drawn, last, 0, raw ? 1.0 : row.inverse, is_weighed ? exponential_of(logprob) : 0.0, above, lowest, x_max, row.scale, 0, 1 + kept_ones - (at_place < kept_ones), 0, 0};
        is_told = is_weighed;
        if (is_weighed) asked.weights[number] = {};
    }
    __syncthreads();
}

template <typename T, bool BARE>
__device__ __noinline__ uint32_t Draw<T, BARE>::tokens_before(Key key) {
    uint32_t before = 0;
    before_key(key, [&](float4, bool4 is_before) { before += is_before.x + is_before.y + is_before.z + is_before.w; });
    return tallied(make_uint2(before, 0)).x;
}

// Once the total is known, a block of threads writes what the entries say; the drawn token's is the first. Others wrote them: the first cache is not asked.
__device__ __noinline__ void finish(Report& report, Entry* entries, uint64_t total, bool is_logits) {
    const double top = double(__ldcg(&report.x_max)), inverse = __ldcg(&report.inverse);
    const uint32_t listed = __ldcg(&report.listed);
    for (uint32_t i = threadIdx.x; i < listed; i += blockDim.x) {
        const double x = __ldcg(&entries[i].value), logprob = (x - top) * inverse - ln(relative(total));
        if (i == 0) report.probability = exponential_of(logprob);
        entries[i].value = is_logits ? x * inverse : logprob;
    }
}

// A raw row is drawn by one block of threads and summed by others. All that comes of it is written by whichever arrives last.
__device__ __noinline__ void arrive(const Step& step, uint32_t number, bool is_drawn_here) {
    __shared__ uint32_t is_last;
    Weight& weight = step.weights[number];
    __threadfence();
    __syncthreads();
    // In the last bit whether there is a token to report of.
    if (threadIdx.x == 0) is_last = atomicAdd(&weight.arrived, 2 | is_drawn_here) / 2 == step.parts;
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    const bool is_drawn = __ldcg(&weight.arrived) & 1;
    const Sequence& sequence = step.sequences[step.tasks[number].slot];
    if (is_drawn) finish(step.reports[number], step.entries + uint64_t(number) * step.width, __ldcg(&weight.mass), sequence.logprobs_mode == RAW_LOGITS);
    __syncthreads();
    if (threadIdx.x == 0) {
        weight = {};
        step.summits[number * SUMMIT_PITCH] = step.raw_summits[number * SUMMIT_PITCH] = 0;
    }
}

constexpr uint32_t REPORT_THREADS = 256;

// The sum of a block of threads, which the first thread gets.
__device__ __forceinline__ uint64_t sum_of_block(uint64_t own) {
    __shared__ uint64_t parts[REPORT_THREADS / 32];
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) own += __shfl_xor_sync(ALL, own, offset);
    if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = own;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (uint32_t i = 1; i < REPORT_THREADS / 32; i++) own += parts[i];
    }
    return own;
}

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
    // The draw has waited for the first pass and is under way: nothing of what it writes is read here before it has arrived. All the same this ends after it.
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
        if (threadIdx.x == 0) atomicAdd(reinterpret_cast<unsigned long long*>(&step.weights[number].mass), mass);
        arrive(step, number, false);
    }
    if (blockIdx.x == 0 && number == 0) wait_for_the_one_before();
}

// The logprobs of what is left of a row.
template <typename T>
__device__ __forceinline__ void sum_report(const Step& step) {
    __shared__ uint32_t is_last;
    const uint32_t number = blockIdx.y, vocabulary = step.vocabulary;
    const Task task = step.tasks[number];
    Sequence& sequence = step.sequences[task.slot];
    wait_for_the_one_before();
    if (sequence.logprobs == 0 || sequence.logprobs_mode <= RAW_LOGITS || step.results[number].status != DRAWN) return;
    Report& report = step.reports[number];
    const Softmax softmax = {report.x_max, report.scale};
    const Key drawn = report.drawn, last = report.last;
    const float above = report.above, lowest = report.lowest;
    const Place place = {&sequence, task.mask, task.path, task.depth};
    const Adjustment adjustment = {task.mask, task.allowed, task.touched};
    const T* const logits = static_cast<const T*>(step.logits) + int64_t(number) * step.stride;
    const bool is_aligned = reinterpret_cast<uint64_t>(logits) % (4 * sizeof(T)) == 0;
    const float low = negative_infinity();
    uint64_t mass = 0;
    uint32_t before = 0;
#pragma unroll 2
    for (uint32_t i = 0; i < REPORTED; i += 4 * REPORT_THREADS) {
        const uint32_t token = blockIdx.x * REPORTED + 4 * threadIdx.x + i;
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
    // Whoever comes last has all of it, and nobody reads the sequence any more.
    const uint64_t total = *reinterpret_cast<volatile uint64_t*>(&report.mass);
    const uint32_t rank = *reinterpret_cast<volatile uint32_t*>(&report.rank);
    Entry* const entries = step.entries + uint64_t(number) * step.width;
    finish(report, entries, total, sequence.logprobs_mode == PROCESSED_LOGITS);
    if (threadIdx.x == 0) {
        entries[0].rank = rank + 1;
        if (step.advances) append(sequence, &sequence, step.results[number].token);
    }
}
