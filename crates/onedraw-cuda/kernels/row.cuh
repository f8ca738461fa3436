// A row from its beginning to its end: `draw.cuh` has the order of the calls, and the naive loop. Part of
// draw.cuh.
//
// What is particular to this file is when things are read.
//
// 1. A draw is launched before the first pass has ended. Until `wait_for_the_one_before` it reads only what
//    the first pass does not write: the task, the sequence and its list of tokens. (The first pass has itself
//    waited for the draw of the step before, so these are up to date.) For bare rows the sequence is read
//    after the wait: it comes together with the peaks, which take as long.
// 2. What is read from device memory is copied into shared memory by asynchronous copies, all of them before
//    the first is waited for.
// 3. A thread block draws one row. Only the form for ANY rows, of which one fits a multiprocessor, is
//    launched with as many thread blocks as there are multiprocessors, and these take rows in turn.
// 4. A row whose edited tokens do not fit the table is drawn by the same kernel without one (`draw_crowded`),
//    in the same shared memory.
//
// The order of reads changes no value, and all forms share the code that decides.
#pragma once

#include "draw.cuh"

template <typename T, Rows ROWS>
__device__ __forceinline__ bool Draw<T, ROWS>::prepare(const Step& step, const Task& task) {
    const uint64_t* const record = reinterpret_cast<const uint64_t*>(step.sequences + task.slot);
    if (threadIdx.x < sizeof(Sequence) / 8) reinterpret_cast<uint64_t*>(&sequence)[threadIdx.x] = __ldcg(record + threadIdx.x);
    if (ROWS == ANY && threadIdx.x < sizeof(Step) / 8) reinterpret_cast<uint64_t*>(&step_copy)[threadIdx.x] = reinterpret_cast<const uint64_t*>(&step)[threadIdx.x];
    const bool has_list = ROWS != CROWDED && task.touched != nullptr;
    // These reads are under way together with that of the sequence, which says how long the list is: past its
    // end, the list's memory holds anything.
    uint32_t list[EDITS_PER_THREAD] = {};
#pragma unroll
    for (uint32_t i = 0; has_list && i < EDITS_PER_THREAD; i++) list[i] = __ldcg(task.edit_list + threadIdx.x + i * DRAW_THREADS);
    for (uint32_t i = threadIdx.x; ROWS != CROWDED && i < EDIT_TABLE_HEADS; i += DRAW_THREADS) heads[i] = END_OF_LINKS;
    for (uint32_t i = threadIdx.x; ROWS != EDITED && i < padded_blocks / 32; i += DRAW_THREADS) edited_blocks[i] = 0;
    for (uint32_t i = threadIdx.x; i < padded_blocks / 32; i += DRAW_THREADS) lost()[i] = 0;
    if (threadIdx.x == 0) {
        others = 0;
        place = {&sequence, task.mask, task.path, task.depth, task.repeats};
        adjustment = {task.mask, task.allowed, task.touched};
        is_bare = task.mask == nullptr && task.allowed == nullptr && task.touched == nullptr;
    }
    __syncthreads();
    // A bent logit is one that is changed when it is read.
    if (ROWS == ANY && threadIdx.x == 0 && sequence.is_bent) is_bare = false;
    if (ROWS == ANY && threadIdx.x == 0 && (task.mask != nullptr || task.late_mask != nullptr)) {
        sequence.inverse = sequence.late_inverse;
        sequence.scale = sequence.late_scale;
    }
    if (has_list && fits()) link(list[0], list[1], list[2]);
    return ROWS != EDITED || fits();
}

// The naive loop: nothing is gained by being clever, since a row without a token is an error.
template <typename T, Rows ROWS>
__device__ __noinline__ uint32_t Draw<T, ROWS>::emptied_by() const {
#pragma unroll 1
    for (uint32_t edits = 0; edits <= sequence.edits; edits++) {
        bool is_alive = false;
#pragma unroll 1
        for (uint32_t token = threadIdx.x; token < vocabulary; token += DRAW_THREADS) is_alive |= place.edited(token, widened(logits[token]), edits, place.counted(token)) > negative_infinity();
        if (!__syncthreads_or(is_alive)) return edits - 1;
    }
    return NO_EDIT;
}

template <typename T, Rows ROWS>
__device__ __forceinline__ Outcome Draw<T, ROWS>::draw(const Step& step) {
    const Task task = step.tasks[row];
    if (ROWS != BARE && !prepare(step, task)) return {0, UNFIT};
    wait_for_the_one_before();
    // The next kernel sums unmodified rows. It needs only the first pass, which has ended here.
    if (step.weigh_parts) let_the_next_begin();
    const uint32_t bad_token = __ldcg(step.bad_tokens + row), top = __ldcg(step.summits + row * SUMMIT_PITCH);
    // The sequence of a bare row: this read is under way together with those of the peaks.
    const uint64_t* const record = reinterpret_cast<const uint64_t*>(step.sequences + task.slot);
    const bool copies = ROWS == BARE && threadIdx.x < sizeof(Sequence) / 8;
    const uint64_t word_of = copies ? record[threadIdx.x] : 0;
    const uint64_t begin = uint64_t(row) * step.pitch;
    fetch_peaks(highest(), step.peaks + begin, step.pitch);
    fetch(gains(), step.gains + begin, step.pitch);
    if (step.is_summed) {
        fetch(masses(), step.sums + begin, step.pitch);
        fetch(reinterpret_cast<float*>(work()), step.references + begin, (step.pitch + step.group - 1) / step.group);
    }
    if (ROWS != BARE && task.touched != nullptr && is_tabulated()) fetch(&entries()->x, &step.edited[row * EDIT_LIST_CAPACITY].x, 2 * (sequence.edit_list_length + task.depth));
    __pipeline_commit();
    if (copies) reinterpret_cast<uint64_t*>(&sequence)[threadIdx.x] = word_of;
    if (threadIdx.x < DEPTHS) depth_histogram[threadIdx.x] = 0;
    if (threadIdx.x == 0) {
        if (ROWS == BARE) place = {&sequence, nullptr, task.path, task.depth, nullptr};
        slot = task.slot;
        references = step.references + begin;
        pitch = step.pitch;
        group = step.group;
        total = {};
        last = key_end();
        // -0 becomes 0: a difference of two zeros must be 0, not -0.
        summit = x_max = logit_of_summit(top) + 0.0f;
        above = positive_infinity();
        head = 0;
        desk = nullptr;
        late_mask = task.late_mask;
        bend_top = 0.0f;
        is_smoothed = false;
        heat = heat_inverse = 1.0;
        next_mu = 0.0;
        if (ROWS == ANY) {
            is_summed_here = false;
            whole = {};
            if (task.gauge != NO_GAUGE) {
                whole = {__ldcg(&step.gauges[row].mass), __ldcg(&step.gauges[row].surprises), __ldcg(&step.gauges[row].tokens), 0};
                step.gauges[row] = {};
            }
        }
        if (ROWS == ANY && task.depth > 0 && sequence.mirostat) sequence.mu = __ldcg(&step.reports[row].mu);
        lowest = bottom = bottom_before = negative_infinity();
    }
    __pipeline_wait_prior(0);
    __syncthreads();
    if (bad_token != NO_TOKEN) {
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
            for (uint32_t quad = threadIdx.x; quad < padded_blocks / 4; quad += DRAW_THREADS) top = fmaxf(top, largest(reinterpret_cast<const float4*>(highest())[quad]));
            top = largest_of_all(top);
            if (threadIdx.x == 0) x_max = top + 0.0f;
            __syncthreads();
        }
    }
    if (!(x_max > negative_infinity())) return {ROWS == BARE ? NO_EDIT : emptied_by(), NOTHING_LEFT};
    if (ROWS != ANY) return {sequence.is_greedy ? leader().token : truncated(), DRAWN};
    if (sequence.is_bent) smooth(bend_of(sequence), false);
    // Typical and XTC may take the first token away; every other truncation keeps it. So a greedy row needs its chain
    // only then, and plain chains need no cut.
    if (!sequence.is_plain || (step.laws != nullptr && !sequence.is_greedy)) {
        const uint32_t emptied = cut();
        if (emptied != NO_EDIT) return {emptied, NOTHING_LEFT};
    }
    uint32_t token = step.is_chosen ? __ldcg(&step.results[row].token) : NO_TOKEN;
    if (token == NO_TOKEN) {
        if (sequence.is_greedy || step.laws != nullptr) token = leader().token;
        else token = sequence.is_plain ? truncated() : race(last + 1).token;
    }
    // Where a law is written, the token is chosen later.
    if (sequence.mirostat) learn(step.laws != nullptr ? NO_TOKEN : token);
    if (step.laws != nullptr) {
        write_law(step.laws + uint64_t(row) * vocabulary, sequence.is_greedy ? key_of(x_max, token) : last);
        return {token, DRAWN};
    }
    if (sequence.is_told) report(token);
    return {token, DRAWN};
}

template <typename T, Rows ROWS>
__device__ __forceinline__ bool Draw<T, ROWS>::finish(const Step& step) {
    if (threadIdx.x == 0) {
        vocabulary = step.vocabulary;
        padded_blocks = (step.pitch + BLOCKS_ROUNDED_TO - 1) / BLOCKS_ROUNDED_TO * BLOCKS_ROUNDED_TO;
        logits = static_cast<const T*>(step.logits) + int64_t(row) * step.stride;
    }
    __syncthreads();
    if (ROWS == ANY && !is_due(step)) return true;
    const Outcome result = draw(step);
    if (ROWS == EDITED && result.status == UNFIT) return false;
    if (ROWS != ANY) let_the_next_begin();
    if (threadIdx.x == 0) {
        const uint32_t summit_of_row = row * SUMMIT_PITCH;
        step.results[row] = result;
        // Prepares the arrays for the next step. What the kernel of raw logprobs still needs, it clears
        // itself.
        step.bad_tokens[row] = NO_TOKEN;
        if (step.weigh_parts == 0 || !is_raw()) step.summits[summit_of_row] = step.raw_summits[summit_of_row] = 0;
        // A row of which something is told moves on when that is done: here, in `sum_report` or in `list_all`.
        const bool moves_on = ROWS != ANY || ((!sequence.is_told || is_summed_here) && !is_sorted_last(sequence));
        if (step.advances && result.status == DRAWN && moves_on) append(sequence, step.sequences + slot, result.token, is_touched(result.token));
        if (ROWS == ANY && step.advances && result.status == DRAWN && sequence.mirostat) {
            const uint32_t written = sequence.length - sequence.prompt + 1;
            step.sequences[slot].mu = next_mu;
            if (written < sequence.mu_room) sequence.mus[written] = next_mu;
        }
    }
    return true;
}

// A thread block draws one row after the other, where there are more rows than thread blocks.
template <typename T, Rows ROWS>
__device__ __forceinline__ void draw_rows(const Step& step) {
    __shared__ Draw<T, ROWS> draw;
    // The next launch waits only for this one, and needs those before it too. So this one must not end before
    // them, even if it has no row that is due.
    if (ROWS == ANY && step.level > 0) wait_for_the_one_before();
    if (threadIdx.x == 0) draw.row = blockIdx.x;
#pragma unroll 1
    while (true) {
        draw.finish(step);
        if (ROWS != ANY || draw.row + gridDim.x >= step.rows) return;
        __syncthreads();
        if (threadIdx.x == 0) draw.row += gridDim.x;
    }
}

// Draws a row whose edited tokens did not fit the table, in the memory of the draw that found this out.
template <typename T>
__device__ __noinline__ void draw_crowded(Draw<T, CROWDED>& draw, const Step& step) {
    __syncthreads();
    if (threadIdx.x == 0) draw.row = blockIdx.x;
    draw.finish(step);
}

// Draws one row with masks or edits.
template <typename T>
__device__ __forceinline__ void draw_edited(const Step& step) {
    __shared__ union {
        Draw<T, EDITED> edited;
        Draw<T, CROWDED> crowded;
    } memory;
    if (threadIdx.x == 0) memory.edited.row = blockIdx.x;
    if (!memory.edited.finish(step)) draw_crowded(memory.crowded, step);
}
