// The first message of a rank about a row, from the task to its bytes: opening.cuh says what it is.
#pragma once

#include "../number/warp.cuh"
#include "curve.cuh"
#include "finishers.cuh"

// Bytes of the answer between the header and the keys, and where it begins in the slot.
constexpr uint32_t OPEN_ANSWER = OPEN_HEAD + 4, OPEN_KEYS = OPEN_ANSWER + 30;
static_assert(OPEN_KEYS + 8 * (OPEN_BEST + OPEN_FINISHERS) + 2 * OPEN_POINTS == OPEN_SLOT, "the longest message fills the slot");
static_assert(OPEN_SLOT % 4 == 0, "it is written in words");

// Prepares the row: called by all threads.
template <typename Opening>
__device__ __forceinline__ void prepare_part(Opening& opening, const OpenTask& from) {
    if (threadIdx.x < sizeof(OpenTask) / 8) reinterpret_cast<uint64_t*>(&opening.task)[threadIdx.x] = reinterpret_cast<const uint64_t*>(&from)[threadIdx.x];
    if (threadIdx.x < sizeof(Sequence) / 8) reinterpret_cast<uint64_t*>(&opening.sequence)[threadIdx.x] = __ldcg(reinterpret_cast<const uint64_t*>(from.sequence) + threadIdx.x);
    for (uint32_t i = threadIdx.x; i < OPEN_SLOT; i += OPEN_THREADS) opening.message[i] = 0;
    for (uint32_t i = threadIdx.x; i < OPEN_POINTS; i += OPEN_THREADS) opening.points[i] = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        opening.logits = static_cast<const typename Opening::Logit*>(opening.task.logits);
        opening.place = {&opening.sequence, opening.task.mask, nullptr, 0, opening.task.repeats};
        opening.adjustment = {opening.task.mask, opening.sequence.allowed, opening.sequence.touched};
        opening.is_bare = opening.task.mask == nullptr && opening.sequence.allowed == nullptr && opening.sequence.touched == nullptr;
        opening.is_aligned = (reinterpret_cast<uint64_t>(opening.logits) - uint64_t(opening.task.start) * sizeof(typename Opening::Logit)) % (4 * sizeof(typename Opening::Logit)) == 0;
        opening.first_block = opening.task.start / BLOCK;
        opening.blocks = opening.task.length == 0 ? 0 : (opening.task.start + opening.task.length - 1) / BLOCK - opening.first_block + 1;
        opening.bad = NO_TOKEN;
        opening.is_changed = opening.best_count = opening.finisher_count = 0;
        opening.listed = opening.rest = 0;
    }
    __syncthreads();
}

// The first pass: peaks, the lowest bad logit, and whether anything is changed.
template <typename Opening>
__device__ __forceinline__ void survey(Opening& opening) {
    const uint32_t lane = threadIdx.x & 31;
    over_blocks<4>(opening, [](uint32_t) { return true; },
                   [&](uint32_t block, float4 raw, float4 x) {
                       const uint32_t token = opening.token_in(block);
                       const auto look = [&](float raw, float x, uint32_t token) {
                           if (!(raw < positive_infinity())) atomicMin(&opening.bad, token << 1 | uint32_t(raw != raw));
                           if (raw != x) opening.is_changed = 1;
                       };
                       look(raw.x, x.x, token);
                       look(raw.y, x.y, token + 1);
                       look(raw.z, x.z, token + 2);
                       look(raw.w, x.w, token + 3);
                       float top = largest(x);
#pragma unroll
                       for (int offset = 8; offset > 0; offset >>= 1) top = fmaxf(top, __shfl_xor_sync(ALL_LANES, top, offset));
                       if (lane % 16 == 0 && block < opening.blocks) opening.peaks()[block] = top;
                   });
    __syncthreads();
}

// The first token of the order, and the last place within reach. Returns whether any token is alive.
template <typename Opening>
__device__ __forceinline__ bool find_top(Opening& opening) {
    const float highest = opening.nth_largest(own_peak(opening), 1);
    if (!(highest > negative_infinity())) return false;
    uint64_t own = 0;
    over_reaching<1>(opening, highest, [&](float x, uint32_t token) { own = max(own, ~key_of(x, token)); });
    opening.largest_of_all(own, 0);
    if (threadIdx.x == 0) {
        opening.top = ~opening.found_key;
        opening.x_max = logit_of(opening.top);
        opening.end = opening.task.reach > -__longlong_as_double(0x7ff0000000000000ll) ? last_of(lowest_within(double(opening.x_max), opening.task.reach)) : key_end();
    }
    __syncthreads();
    return true;
}

// The first tokens of the order.
template <typename Opening>
__device__ __forceinline__ void list_best(Opening& opening) {
    const uint32_t wanted = opening.task.best;
    const float reach = opening.nth_largest(own_peak(opening), wanted);
    opening.begin_list();
    over_reaching<1>(opening, reach, [&](float x, uint32_t token) { opening.add(key_of(x, token)); });
    __syncthreads();
    const uint32_t found_keys = opening.count;
    if (found_keys <= OPEN_LIST) {
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < found_keys; i += OPEN_THREADS) {
            uint32_t rank = 0;
#pragma unroll 4
            for (uint32_t j = 0; j < found_keys; j++) rank += opening.keys[j] < opening.keys[i];
            if (rank < wanted) opening.best[rank] = opening.keys[i];
        }
        if (threadIdx.x == 0) opening.best_count = min(found_keys, wanted);
    } else {
        // More than `wanted` reach it.
        Key last = 0;
#pragma unroll 1
        for (uint32_t i = 0; i < wanted; i++) {
            uint64_t own = 0;
            over_reaching<1>(opening, reach, [&](float x, uint32_t token) {
                const Key key = key_of(x, token);
                if (key > last) own = max(own, ~key);
            });
            opening.largest_of_all(own, 0);
            last = ~opening.found_key;
            if (threadIdx.x == 0) opening.best[i] = last;
        }
        if (threadIdx.x == 0) opening.best_count = wanted;
    }
    __syncthreads();
    if (opening.task.scale > 0.0f && threadIdx.x < opening.best_count) atomicAdd(&opening.listed, (unsigned long long)weight_below({opening.x_max, opening.task.scale}, logit_of(opening.best[threadIdx.x])));
    __syncthreads();
}

// Writes the bytes of a number into the message, the lowest first.
template <typename Opening>
__device__ __forceinline__ void put_bytes(Opening& opening, uint32_t at, uint64_t number, uint32_t bytes) {
#pragma unroll 1
    for (uint32_t i = 0; i < bytes; i++) opening.message[at + i] = uint8_t(number >> 8 * i);
}

// Writes the message.
template <typename Opening>
__device__ __forceinline__ void write_message(Opening& opening, bool is_alive) {
    const uint32_t keys_sent = opening.best_count + opening.finisher_count, points_sent = opening.task.scale > 0.0f ? OPEN_POINTS : 0;
    // The two numbers come first, then the length, then the header.
    if (threadIdx.x < OPEN_HEAD) opening.message[threadIdx.x < 16 ? threadIdx.x : threadIdx.x + 4] = opening.task.head[threadIdx.x];
    if (threadIdx.x == 0) {
        const bool is_bad = opening.bad != NO_TOKEN;
        put_bytes(opening, 16, OPEN_KEYS - 20 + 8 * keys_sent + 2 * points_sent, 4);
        put_bytes(opening, OPEN_ANSWER, is_alive ? opening.top : ~0ull, 8);
        put_bytes(opening, OPEN_ANSWER + 8, is_bad ? opening.bad >> 1 : NO_TOKEN, 4);
        put_bytes(opening, OPEN_ANSWER + 12, is_bad ? opening.bad & 1 : 0, 1);
        put_bytes(opening, OPEN_ANSWER + 13, !is_bad && opening.is_changed == 0, 1);
        put_bytes(opening, OPEN_ANSWER + 14, opening.best_count, 4);
        put_bytes(opening, OPEN_ANSWER + 18, opening.rest, 8);
        put_bytes(opening, OPEN_ANSWER + 26, keys_sent, 4);
    }
    if (threadIdx.x < keys_sent) put_bytes(opening, OPEN_KEYS + 8 * threadIdx.x, threadIdx.x < opening.best_count ? opening.best[threadIdx.x] : opening.finishers[threadIdx.x - opening.best_count], 8);
    if (threadIdx.x < points_sent) put_bytes(opening, OPEN_KEYS + 8 * keys_sent + 2 * threadIdx.x, opening.points[threadIdx.x], 2);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < OPEN_SLOT / 4; i += OPEN_THREADS) {
        const uint8_t* const four_bytes = opening.message + 4 * i;
        opening.task.slot[i] = four_bytes[0] | four_bytes[1] << 8 | four_bytes[2] << 16 | uint32_t(four_bytes[3]) << 24;
    }
}

// Everything, from the task to the message.
template <typename Opening>
__device__ __forceinline__ void open_part(Opening& opening, const OpenTask& from) {
    prepare_part(opening, from);
    survey(opening);
    const bool is_alive = opening.bad == NO_TOKEN && find_top(opening);
    if (is_alive) {
        if (opening.task.best > 0) list_best(opening);
        if (opening.task.inverse > 0.0) race_part(opening);
        if (opening.task.scale > 0.0f && opening.best_count == opening.task.best) draw_curve(opening);
    }
    write_message(opening, is_alive);
}

template <typename T>
__device__ __forceinline__ void open_row(const OpenStep& step) {
    __shared__ Opening<T> opening;
    open_part(opening, step.tasks[blockIdx.x]);
}
