// A row from its beginning to its end. Part of draw.cuh.
#pragma once

#include "draw.cuh"

template <typename T, Rows ROWS>
__device__ __forceinline__ bool Draw<T, ROWS>::prepare(const Step& step, const Task& task) {
    const uint64_t* const record = reinterpret_cast<const uint64_t*>(step.sequences + task.slot);
    if (threadIdx.x < sizeof(Sequence) / 8) reinterpret_cast<uint64_t*>(&row)[threadIdx.x] = __ldcg(record + threadIdx.x);
    if (ROWS == ANY && threadIdx.x < sizeof(Step) / 8) reinterpret_cast<uint64_t*>(&asked)[threadIdx.x] = reinterpret_cast<const uint64_t*>(&step)[threadIdx.x];
    const bool has_list = ROWS != CROWDED && task.touched != nullptr;
    // Under way together with the sequence. Past its end the list has anything.
    uint32_t list[EDITED_EACH] = {};
#pragma unroll
    for (uint32_t i = 0; has_list && i < EDITED_EACH; i++) list[i] = __ldcg(task.list + threadIdx.x + i * DRAW_THREADS);
    for (uint32_t i = threadIdx.x; ROWS != CROWDED && i < HEADS; i += DRAW_THREADS) heads[i] = NONE;
    for (uint32_t i = threadIdx.x; ROWS != EDITED && i < room / 32; i += DRAW_THREADS) edited_blocks[i] = 0;
    for (uint32_t i = threadIdx.x; i < room / 32; i += DRAW_THREADS) lost()[i] = 0;
    if (threadIdx.x == 0) {
        others = 0;
        place = {&row, task.mask, task.path, task.depth};
        adjustment = {task.mask, task.allowed, task.touched};
        is_bare = task.mask == nullptr && task.allowed == nullptr && task.touched == nullptr;
    }
    __syncthreads();
    if (has_list && fits()) link(list[0], list[1], list[2]);
    return ROWS != EDITED || fits();
}

template <typename T, Rows ROWS>
__device__ __noinline__ uint32_t Draw<T, ROWS>::emptied_by() const {
#pragma unroll 1
    for (uint32_t edits = 0; edits <= row.edits; edits++) {
        bool is_alive = false;
#pragma unroll 1
        for (uint32_t token = threadIdx.x; token < vocabulary; token += DRAW_THREADS) is_alive |= place.edited(token, widened(logits[token]), edits, place.counted(token)) > negative_infinity();
        if (!__syncthreads_or(is_alive)) return edits - 1;
    }
    return 0xffffffffu;
}

template <typename T, Rows ROWS>
__device__ __forceinline__ Result Draw<T, ROWS>::draw(const Step& step) {
    const Task task = step.tasks[number];
    if (ROWS != BARE && !prepare(step, task)) return {0, UNFIT};
    wait_for_the_one_before();
    // Raw rows are summed meanwhile: that needs the first pass alone.
    if (step.parts) let_the_next_begin();
    const uint32_t bad_token = __ldcg(step.bad + number), top = __ldcg(step.summits + number * SUMMIT_PITCH);
    // Under way together with the peaks.
    const uint64_t* const record = reinterpret_cast<const uint64_t*>(step.sequences + task.slot);
    const bool copies = ROWS == BARE && threadIdx.x < sizeof(Sequence) / 8;
    const uint64_t word_of = copies ? record[threadIdx.x] : 0;
    const uint64_t begin = uint64_t(number) * step.pitch;
    fetch_peaks(highest(), step.peaks + begin, step.pitch);
    fetch(lucks(), step.lucks + begin, step.pitch);
    if (step.is_summed) {
        fetch(masses(), step.sums + begin, step.pitch);
        fetch(reinterpret_cast<float*>(work()), step.references + begin, (step.pitch + step.group - 1) / step.group);
    }
    if (ROWS != BARE && task.touched != nullptr && is_tabulated()) fetch(&entries()->x, &step.edited[number * TABULATED].x, 2 * (row.listed + task.depth));
    __pipeline_commit();
    if (copies) reinterpret_cast<uint64_t*>(&row)[threadIdx.x] = word_of;
    if (threadIdx.x < DEPTHS) depths[threadIdx.x] = 0;
    if (threadIdx.x == 0) {
        if (ROWS == BARE) place = {&row, nullptr, task.path, task.depth};
        slot = task.slot;
        references = step.references + begin;
        pitch = step.pitch;
        group = step.group;
        total = {};
        last = key_end();
        summit = x_max = logit_of_summit(top);
        above = __uint_as_float(0x7f800000u);
        lowest = bottom = bottom_before = negative_infinity();
    }
    __pipeline_wait_prior(0);
    __syncthreads();
    if (bad_token != 0xffffffffu) {
        const float x = widened(logits[bad_token]);
        return {bad_token, x == x ? INFINITE_LOGIT : NAN_LOGIT};
    }
    if (ROWS != BARE) {
        if (task.touched != nullptr) {
            if (is_tabulated()) change_listed();
            else change_touched();
            repair();
            float top = negative_infinity();
#pragma unroll 1
            for (uint32_t quad = threadIdx.x; quad < room / 4; quad += DRAW_THREADS) top = fmaxf(top, largest(reinterpret_cast<const float4*>(highest())[quad]));
            top = largest_of_all(top);
            if (threadIdx.x == 0) x_max = top;
            __syncthreads();
        }
    }
    if (!(x_max > negative_infinity())) return {ROWS == BARE ? 0xffffffffu : emptied_by(), NOTHING_LEFT};
    if (ROWS != ANY) return {row.is_greedy ? leader().token : truncated(), DRAWN};
    // Typical may take the first token away; every other truncation keeps it.
    if (!row.is_plain || (step.laws != nullptr && !row.is_greedy)) cut();
    uint32_t token = 0;
    if (row.is_greedy || step.laws != nullptr) token = leader().token;
    else if (!step.is_chosen) token = row.is_plain ? truncated() : race(last + 1).token;
    if (step.laws != nullptr) {
        write_law(step.laws + uint64_t(number) * vocabulary, row.is_greedy ? key_of(x_max, token) : last);
        return {token, DRAWN};
    }
    if (step.is_chosen) token = step.results[number].token;
    if (row.logprobs > 0 && !is_raw()) report(token);
    return {token, DRAWN};
}

template <typename T, Rows ROWS>
__device__ __forceinline__ bool Draw<T, ROWS>::finish(const Step& step) {
    if (threadIdx.x == 0) {
        vocabulary = step.vocabulary;
        room = (step.pitch + ROUND_UP - 1) / ROUND_UP * ROUND_UP;
        logits = static_cast<const T*>(step.logits) + int64_t(number) * step.stride;
    }
    __syncthreads();
    const Result result = draw(step);
    if (ROWS == EDITED && result.status == UNFIT) return false;
    if (ROWS != ANY) let_the_next_begin();
    if (threadIdx.x == 0) {
        const uint32_t summit_of_row = number * SUMMIT_PITCH;
        step.results[number] = result;
        // For the next step. What `tell` needs still it clears itself.
        step.bad[number] = 0xffffffffu;
        if (step.parts == 0 || !is_raw()) step.summits[summit_of_row] = step.raw_summits[summit_of_row] = 0;
        // A row with logprobs of what is left moves on when these are done.
        const bool moves_on = ROWS != ANY || row.logprobs == 0 || is_raw();
        if (step.advances && result.status == DRAWN && moves_on) append(row, step.sequences + slot, result.token, is_touched(result.token));
    }
    return true;
}

// A block of threads has one row after the other, where there are more than blocks of threads.
template <typename T, Rows ROWS>
__device__ __forceinline__ void draw_rows(const Step& step) {
    __shared__ Draw<T, ROWS> draw;
    if (threadIdx.x == 0) draw.number = blockIdx.x;
#pragma unroll 1
    while (true) {
        draw.finish(step);
        if (ROWS != ANY || draw.number + gridDim.x >= step.rows) return;
        __syncthreads();
        if (threadIdx.x == 0) draw.number += gridDim.x;
    }
}

// In the memory of a row that a table was too small for.
template <typename T>
__device__ __noinline__ void draw_crowded(Draw<T, CROWDED>& draw, const Step& step) {
    __syncthreads();
    if (threadIdx.x == 0) draw.number = blockIdx.x;
    draw.finish(step);
}

// One row a block of threads.
template <typename T>
__device__ __forceinline__ void draw_edited(const Step& step) {
    __shared__ union {
        Draw<T, EDITED> edited;
        Draw<T, CROWDED> crowded;
    } memory;
    if (threadIdx.x == 0) memory.edited.number = blockIdx.x;
    if (!memory.edited.finish(step)) draw_crowded(memory.crowded, step);
}
