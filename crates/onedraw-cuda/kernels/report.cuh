// Logprobs: which tokens are listed (part of draw.cuh), then the sums over the whole row, by many blocks of threads.
#pragma once

#include "draw.cuh"

template <typename T, bool BARE>
__device__ __noinline__ void Draw<T, BARE>::report(const Step& step, uint32_t token, Key last) {
    Report& report = step.reports[blockIdx.x];
    Entry* const entries = step.entries + uint64_t(blockIdx.x) * step.width;
    const bool raw = row.logprobs_mode <= RAW_LOGITS;
    // Where nothing was masked or edited, what is known of the blocks is that of the row as it came.
    if (raw) {
        float top = summit;
        __syncthreads();
        if (!is_bare) top = load(step.raw_tops + uint64_t(blockIdx.x) * step.pitch, step.pitch);
        __syncthreads();
        if (threadIdx.x == 0) {
            is_bare = true;
            x_max = top;
            above = __uint_as_float(0x7f800000u);
            lowest = negative_infinity();
        }
        __syncthreads();
        last = key_end();
    }
    const Key drawn = key_of(at(token), token);
    // A greedy row leaves one token.
    if (!raw && row.is_greedy) last = drawn;
    const uint32_t wanted = min(row.logprobs, step.width) - 1;
    uint32_t listed = 0;
    if (wanted > 0) {
        if (above == __uint_as_float(0x7f800000u)) listed = list(wanted);
        if (listed == 0) {
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
            listed = count;
            sort(listed);
            set_lowest(bottom);
        }
        listed = min(listed, wanted);
    }
    if (threadIdx.x == 0) {
        entries[0] = {token, 0, double(logit_of(drawn))};
        uint32_t place = 1;
        for (uint32_t i = 0; i < listed; i++) {
            const Key key = keys[i];
            if (key != drawn && key <= last && passes(logit_of(key))) entries[place++] = {uint32_t(key), i + 1, double(logit_of(key))};
        }
        report = {drawn, last, 0, raw ? 1.0 : row.inverse, 0.0, above, lowest, x_max, raw ? 1.44269504f : row.scale, 0, place, 0, raw};
    }
}

constexpr uint32_t REPORT_THREADS = 256;
// Tokens of one block of threads.
constexpr uint32_t REPORTED = 8192;

template <typename T>
__device__ __forceinline__ void sum_report(const Step& step) {
    __shared__ uint64_t masses[REPORT_THREADS / 32];
    __shared__ uint32_t ranks[REPORT_THREADS / 32], is_last;
    const uint32_t number = blockIdx.y, lane = threadIdx.x & 31, warp = threadIdx.x >> 5, vocabulary = step.vocabulary;
    const Task task = step.tasks[number];
    Sequence& sequence = step.sequences[task.slot];
    wait_for_the_one_before();
    if (sequence.logprobs == 0 || step.results[number].status != DRAWN) return;
    Report& report = step.reports[number];
    const Softmax softmax = {report.x_max, report.scale};
    const Key drawn = report.drawn, last = report.last;
    const float above = report.above, lowest = report.lowest;
    const bool is_raw = report.is_raw;
    const Place place = {&sequence, task.mask, task.path, task.depth};
    const Adjustment adjustment = {is_raw ? nullptr : task.mask, is_raw ? nullptr : sequence.allowed, is_raw ? nullptr : sequence.touched};
    const T* const logits = static_cast<const T*>(step.logits) + int64_t(number) * step.stride;
    const bool is_aligned = reinterpret_cast<uint64_t>(logits) % (4 * sizeof(T)) == 0;
    const float low = negative_infinity();
    uint64_t mass = 0;
    uint32_t before = 0;
    constexpr uint32_t STRETCH = 4 * REPORT_THREADS, STRETCHES = REPORTED / STRETCH;
    const auto read = [&](uint32_t token) {
        if (is_aligned && token + 4 <= vocabulary) return four(logits + token);
        return make_float4(token < vocabulary ? widened(logits[token]) : low, token + 1 < vocabulary ? widened(logits[token + 1]) : low,
                           token + 2 < vocabulary ? widened(logits[token + 2]) : low, token + 3 < vocabulary ? widened(logits[token + 3]) : low);
    };
    const uint32_t first = blockIdx.x * REPORTED + 4 * threadIdx.x;
    float4 x[STRETCHES];
#pragma unroll
    for (uint32_t i = 0; i < STRETCHES; i++) x[i] = read(first + i * STRETCH);
    if (is_raw) {
        // All that is alive counts, and what is not weighs nothing.
        const float drawn_logit = logit_of(drawn);
        const uint32_t drawn_id = uint32_t(drawn);
#pragma unroll
        for (uint32_t i = 0; i < STRETCHES; i++) {
            const uint32_t token = first + i * STRETCH;
            const auto add = [&](float x, uint32_t id) {
                mass += weight(softmax, x);
                before += (x > drawn_logit) | ((x == drawn_logit) & (id < drawn_id));
            };
            add(x[i].x, token);
            add(x[i].y, token + 1);
            add(x[i].z, token + 2);
            add(x[i].w, token + 3);
        }
    } else {
#pragma unroll 1
        for (uint32_t i = 0; i < STRETCHES; i++) {
            const uint32_t token = first + i * STRETCH;
            // Read again: to choose among the registers would move them to memory.
            float4 y = read(token);
            if (token < vocabulary) adjustment.apply(y, token, place);
            const auto add = [&](float x, uint32_t id) {
                const Key key = key_of(x, id);
                if (key <= last && x >= lowest && x < above) mass += weight(softmax, x);
                before += key < drawn && x < above;
            };
            add(y.x, token);
            add(y.y, token + 1);
            add(y.z, token + 2);
            add(y.w, token + 3);
        }
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) mass += __shfl_xor_sync(ALL, mass, offset);
    before = __reduce_add_sync(ALL, before);
    if (lane == 0) {
        masses[warp] = mass;
        ranks[warp] = before;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (uint32_t i = 1; i < REPORT_THREADS / 32; i++) {
            mass += masses[i];
            before += ranks[i];
        }
        atomicAdd(reinterpret_cast<unsigned long long*>(&report.mass), mass);
        atomicAdd(&report.rank, before);
        __threadfence();
        is_last = atomicAdd(&report.arrived, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    // Whoever comes last has all of it, and nobody reads the sequence any more.
    const uint64_t total = *reinterpret_cast<volatile uint64_t*>(&report.mass);
    const uint32_t rank = *reinterpret_cast<volatile uint32_t*>(&report.rank);
    const double ln_total = ln(relative(total));
    Entry* const entries = step.entries + uint64_t(number) * step.width;
    const auto scaled = [&](double x) { return (x - double(softmax.x_max)) * report.inverse; };
    const bool is_logits = sequence.logprobs_mode == RAW_LOGITS || sequence.logprobs_mode == PROCESSED_LOGITS;
    for (uint32_t i = threadIdx.x; i < report.listed; i += REPORT_THREADS) {
        Entry& entry = entries[i];
        const double x = entry.value;
        if (i == 0) {
            entry.rank = rank + 1;
            report.probability = exponential_of(scaled(x) - ln_total);
        }
        entry.value = is_logits ? x * report.inverse : scaled(x) - ln_total;
    }
    if (threadIdx.x == 0 && step.advances) append(sequence, &sequence, step.results[number].token);
}
