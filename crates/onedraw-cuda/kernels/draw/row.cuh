// A row from its beginning to its end. draw.cuh has the naive loop, and why what is done instead is exact.
//
// **The way of a row**, in this order:
//
//     finish_row             one row
//       draw_row
//         prepare_row        before the wait: copy the record, link the edited tokens   (not for bare rows)
//                            then wait for the first pass, and fetch its arrays into shared memory
//         change_listed      edited tokens that are in the table, or ...                (rows with edits)
//         change_touched     ... all edited tokens, where they are too many for it
//         repair             blocks whose best token was lowered are read again
//         emptied_by         only if no token is alive: which edit removed the last one
//         leader             greedy rows: the first token of the order
//         truncated          plain chains (MIN_P, TOP_K, TOP_P): total_mass, then gather and race_few,
//                            or race_first, or race_all
//         cut, race          other chains: the last kept token, then the race before it
//         learn              rows with mirostat
//         write_law          rows of drafts that are judged by laws, instead of a draw
//         report             rows that report logprobs after truncation
//       append               text/history.cuh: the sequence moves on
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

#include "../report/report.cuh"
#include "../stages/chain.cuh"
#include "../verify/law.cuh"
#include "race.cuh"
#include "repair.cuh"
#include "truncate.cuh"

// Does what needs nothing of the first pass: copies the arguments and the sequence, links edited tokens.
// Returns whether this form can draw the row.
template <typename Draw>
__device__ __forceinline__ bool prepare_row(Draw& draw, const Step& step, const Task& task) {
    const uint64_t* const record = reinterpret_cast<const uint64_t*>(step.sequences + task.slot);
    if (threadIdx.x < sizeof(Sequence) / 8) reinterpret_cast<uint64_t*>(&draw.sequence)[threadIdx.x] = __ldcg(record + threadIdx.x);
    if (is_staged(Draw::rows) && threadIdx.x < sizeof(Step) / 8) reinterpret_cast<uint64_t*>(&draw.step_copy)[threadIdx.x] = reinterpret_cast<const uint64_t*>(&step)[threadIdx.x];
    if (Draw::rows == STAGED) {
        if (threadIdx.x == 0) {
            draw.place = {&draw.sequence, nullptr, task.path, task.depth, nullptr};
            draw.adjustment = {};
        }
        __syncthreads();
        // A bent logit is one that is changed when it is read.
        if (threadIdx.x == 0) draw.is_bare = !draw.sequence.is_bent;
        return true;
    }
    const bool has_list = Draw::rows != CROWDED && task.touched != nullptr;
    // These reads are under way together with that of the sequence, which says how long the list is: past its
    // end, the list's memory holds anything.
    uint32_t list[EDITS_PER_THREAD] = {};
#pragma unroll
    for (uint32_t i = 0; has_list && i < EDITS_PER_THREAD; i++) list[i] = __ldcg(task.edit_list + threadIdx.x + i * DRAW_THREADS);
    for (uint32_t i = threadIdx.x; Draw::rows != CROWDED && i < EDIT_TABLE_HEADS; i += DRAW_THREADS) draw.heads[i] = END_OF_LINKS;
    for (uint32_t i = threadIdx.x; Draw::rows != EDITED && i < draw.padded_blocks / 32; i += DRAW_THREADS) draw.edited_blocks[i] = 0;
    for (uint32_t i = threadIdx.x; i < draw.padded_blocks / 32; i += DRAW_THREADS) draw.lost()[i] = 0;
    if (threadIdx.x == 0) {
        draw.others = 0;
        draw.place = {&draw.sequence, task.mask, task.path, task.depth, task.repeats};
        draw.adjustment = {task.mask, task.allowed, task.touched};
        draw.is_bare = task.mask == nullptr && task.allowed == nullptr && task.touched == nullptr;
    }
    __syncthreads();
    // A bent logit is one that is changed when it is read.
    if (Draw::rows == ANY && threadIdx.x == 0 && draw.sequence.is_bent) draw.is_bare = false;
    if (Draw::rows == ANY && threadIdx.x == 0 && (task.mask != nullptr || task.late_mask != nullptr)) {
        draw.sequence.inverse = draw.sequence.late_inverse;
        draw.sequence.scale = draw.sequence.late_scale;
    }
    if (has_list && draw.fits()) link_edits(draw, list[0], list[1], list[2]);
    return Draw::rows != EDITED || draw.fits();
}

// The kind of the edit that removed the last token: the first after which nothing is alive; NO_EDIT if nothing was alive to
// begin with. The naive loop, token by token: the edit that removed the last token is the latest that removed any.
template <typename Draw>
__device__ __noinline__ uint32_t emptied_by(Draw& draw) {
    uint32_t survived = 0;
#pragma unroll 1
    for (uint32_t token = threadIdx.x; token < draw.vocabulary; token += DRAW_THREADS) survived = max(survived, draw.place.edits_survived(token, widened(draw.logits[token])));
    survived = uint32_t(draw.largest_key(survived));
    return survived > 0 ? draw.sequence.edit(survived - 1) : NO_EDIT;
}

// The first token of the order.
template <typename Draw>
__device__ __noinline__ Finalist leader(Draw& draw) {
    Finalist first = nobody();
    const float top = draw.x_max;
    over(draw, collect(draw, top), [&](float x, uint32_t token) {
        if (x == top && token < first.token && draw.passes(x, token)) first = {0.0, token, x};
    });
    return draw.best(first);
}

// What is wrong with the row, or what it draws. UNFIT: nothing is done yet, since this form cannot draw
// the row.
template <typename Draw>
__device__ __forceinline__ Outcome draw_row(Draw& draw, const Step& step) {
    const Task task = step.tasks[draw.row];
    if (Draw::rows != BARE && !prepare_row(draw, step, task)) return {0, UNFIT};
    wait_for_the_one_before();
    // The next kernel sums unmodified rows. It needs only the first pass, which has ended here.
    if (step.weighs) let_the_next_begin();
    const uint32_t bad_token = __ldcg(step.bad_tokens + draw.row), top = __ldcg(step.summits + draw.row * SUMMIT_PITCH);
    // The sequence of a bare row: this read is under way together with those of the peaks.
    const uint64_t* const record = reinterpret_cast<const uint64_t*>(step.sequences + task.slot);
    const bool copies = Draw::rows == BARE && threadIdx.x < sizeof(Sequence) / 8;
    const uint64_t word_of = copies ? record[threadIdx.x] : 0;
    const uint64_t begin = uint64_t(draw.row) * step.pitch;
    fetch_peaks(draw, draw.highest(), step.peaks + begin, step.pitch);
    fetch(draw.gains(), step.gains + begin, step.pitch);
    if (step.is_summed) {
        fetch(draw.masses(), step.sums + begin, step.pitch);
        fetch(reinterpret_cast<float*>(draw.work()), step.references + begin, (step.pitch + step.group - 1) / step.group);
    }
    if (is_edited(Draw::rows) && task.touched != nullptr && draw.is_tabulated()) fetch(&draw.entries()->x, &step.edited[draw.row * EDIT_LIST_CAPACITY].x, 2 * (draw.sequence.edit_list_length + task.depth));
    __pipeline_commit();
    if (copies) reinterpret_cast<uint64_t*>(&draw.sequence)[threadIdx.x] = word_of;
    if (threadIdx.x < DEPTHS) draw.depth_histogram[threadIdx.x] = 0;
    if (threadIdx.x == 0) {
        if (Draw::rows == BARE) draw.place = {&draw.sequence, nullptr, task.path, task.depth, nullptr};
        draw.slot = task.slot;
        draw.references = step.references + begin;
        draw.pitch = step.pitch;
        draw.group = step.group;
        draw.total = {};
        draw.nucleus_reach = -1.0f;
        draw.told_list = 0;
        draw.last = key_end();
        // -0 becomes 0: a difference of two zeros must be 0, not -0.
        draw.summit = draw.x_max = logit_of_summit(top) + 0.0f;
        draw.above = positive_infinity();
        draw.head = 0;
        draw.desk = nullptr;
        draw.late_mask = task.late_mask;
        draw.bend_top = 0.0f;
        draw.is_smoothed = false;
        draw.heat = draw.heat_inverse = 1.0;
        draw.next_mu = 0.0;
        if (is_staged(Draw::rows)) {
            draw.is_summed_here = false;
            draw.whole = {};
            if (task.gauge != NO_GAUGE) {
                draw.whole = {__ldcg(&step.gauges[draw.row].mass), __ldcg(&step.gauges[draw.row].surprises), __ldcg(&step.gauges[draw.row].tokens), __ldcg(&step.gauges[draw.row].lowest)};
                step.gauges[draw.row] = {};
            }
        }
        if (is_staged(Draw::rows) && task.depth > 0 && draw.sequence.mirostat) draw.sequence.mu = __ldcg(&step.reports[draw.row].mu);
        draw.lowest = draw.bottom = draw.bottom_before = negative_infinity();
    }
    __pipeline_wait_prior(0);
    __syncthreads();
    if (bad_token != NO_TOKEN) {
        const float x = widened(draw.logits[bad_token]);
        return {bad_token, x == x ? INFINITE_LOGIT : NAN_LOGIT};
    }
    if (is_edited(Draw::rows)) {
        if (task.touched != nullptr) {
            if (draw.is_tabulated()) change_listed(draw);
            else change_touched(draw);
            repair(draw);
            float top = negative_infinity();
#pragma unroll 1
            for (uint32_t quad = threadIdx.x; quad < draw.padded_blocks / 4; quad += DRAW_THREADS) top = fmaxf(top, largest(reinterpret_cast<const float4*>(draw.highest())[quad]));
            top = draw.largest_of_all(top);
            if (threadIdx.x == 0) draw.x_max = top + 0.0f;
            __syncthreads();
        }
    }
    if (!(draw.x_max > negative_infinity())) return {!is_edited(Draw::rows) ? NO_EDIT : emptied_by(draw), NOTHING_LEFT};
    if (!is_staged(Draw::rows)) return {draw.sequence.is_greedy ? leader(draw).token : truncated(draw), DRAWN};
    if (draw.sequence.is_bent) smooth(draw, bend_of(draw.sequence), false);
    uint32_t token = step.is_chosen ? __ldcg(&step.results[draw.row].token) : NO_TOKEN;
    const bool is_chosen = token != NO_TOKEN, is_greedy = draw.sequence.is_greedy;
    // A plain chain is asked about what was drawn. Where its answer does not say what is told of the row, or nothing is
    // drawn here, and for other chains, the last token that is kept is searched. Typical and XTC may take the first token
    // away; every other truncation keeps it, so that a greedy row does not need a plain chain at all.
    if (draw.sequence.is_plain && !is_chosen && !is_greedy && step.laws == nullptr) token = truncated(draw);
    if (!draw.sequence.is_plain || (!is_greedy && (is_chosen || token == NO_TOKEN))) {
        const uint32_t emptied = cut(draw);
        if (emptied != NO_EDIT) return {emptied, NOTHING_LEFT};
    }
    if (token == NO_TOKEN) token = draw.sequence.is_greedy || step.laws != nullptr ? leader(draw).token : race(draw, draw.last + 1).token;
    // Where a law is written, the token is chosen later.
    if (draw.sequence.mirostat) learn(draw, step.laws != nullptr ? NO_TOKEN : token);
    if (step.laws != nullptr) {
        write_law(draw, step.laws + uint64_t(draw.row) * draw.vocabulary, draw.sequence.is_greedy ? key_of(draw.x_max, token) : draw.last);
        return {token, DRAWN};
    }
    if (draw.sequence.is_told) report(draw, token);
    return {token, DRAWN};
}

// Draws a row and writes what comes of it; returns whether this form could.
template <typename Draw>
__device__ __forceinline__ bool finish_row(Draw& draw, const Step& step) {
    if (threadIdx.x == 0) {
        draw.vocabulary = step.vocabulary;
        draw.padded_blocks = (step.pitch + BLOCKS_ROUNDED_TO - 1) / BLOCKS_ROUNDED_TO * BLOCKS_ROUNDED_TO;
        draw.logits = static_cast<const typename Draw::Logit*>(step.logits) + int64_t(draw.row) * step.stride;
    }
    __syncthreads();
    if (is_staged(Draw::rows) && !is_due(draw, step)) return true;
    const Outcome result = draw_row(draw, step);
    if (Draw::rows == EDITED && result.status == UNFIT) return false;
    if (!is_staged(Draw::rows) || draw.row + gridDim.x >= step.rows) let_the_next_begin();
    if (threadIdx.x == 0) {
        const uint32_t summit_of_row = draw.row * SUMMIT_PITCH;
        step.results[draw.row] = result;
        // Prepares the arrays for the next step. What the kernel of raw logprobs still needs, it clears
        // itself.
        step.bad_tokens[draw.row] = NO_TOKEN;
        if (!step.weighs || !draw.is_raw()) step.summits[summit_of_row] = step.raw_summits[summit_of_row] = 0;
        // A row of which something is told moves on when that is done: here, in `sum_report` or in `list_all`.
        const bool moves_on = !is_staged(Draw::rows) || ((!draw.sequence.is_told || draw.is_summed_here) && !is_sorted_last(draw.sequence));
        if (step.advances && result.status == DRAWN && moves_on) append(draw.sequence, step.sequences + draw.slot, result.token, is_touched(draw, result.token));
        if (is_staged(Draw::rows) && step.advances && result.status == DRAWN && draw.sequence.mirostat) {
            const uint32_t written = draw.sequence.length - draw.sequence.prompt + 1;
            step.sequences[draw.slot].mu = draw.next_mu;
            if (written < draw.sequence.mu_room) draw.sequence.mus[written] = draw.next_mu;
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
    if (is_staged(ROWS) && step.level > 0) wait_for_the_one_before();
    if (threadIdx.x == 0) draw.row = blockIdx.x;
#pragma unroll 1
    while (true) {
        finish_row(draw, step);
        if (!is_staged(ROWS) || draw.row + gridDim.x >= step.rows) return;
        __syncthreads();
        if (threadIdx.x == 0) draw.row += gridDim.x;
    }
}

// Draws a row whose edited tokens did not fit the table, in the memory of the draw that found this out.
template <typename T>
__device__ __noinline__ void draw_crowded(Draw<T, CROWDED>& draw, const Step& step) {
    __syncthreads();
    if (threadIdx.x == 0) draw.row = blockIdx.x;
    finish_row(draw, step);
}

// Draws one row with masks or edits.
template <typename T>
__device__ __forceinline__ void draw_edited(const Step& step) {
    __shared__ union {
        Draw<T, EDITED> edited;
        Draw<T, CROWDED> crowded;
    } memory;
    if (threadIdx.x == 0) memory.edited.row = blockIdx.x;
    if (!finish_row(memory.edited, step)) draw_crowded(memory.crowded, step);
}
