// The kernels by name. Those of a step take a `Step`; the host launches them in this order:
//
// 0. `repeat` where a chain has DRY or n-grams: what the texts repeat.
// 1. `skyline_<type>_<form>`, the first pass. Forms: `<steps>`, by how often each thread reads;
//    `summed_<steps>` where a row has a mask or a sequence has TOP_P; both with `edited_` before it where a
//    sequence has edits; `any` for rows that are not aligned to 16 bytes, with everything.
//    Then `gauge_<type>` where a chain begins with an operation that needs sums over the whole row.
// 2. `draw_<type>`, the second pass: `_bare` where no row has masks, edits or other stages than MIN_P, TOP_K
//    and TOP_P, and nothing is reported of what is left; `_edited` with masks and edits; `_staged` without them, with
//    any chain of one segment and any report; no suffix for everything. It is launched several times where rows after guesses wait for others (stages/mirostat.cuh).
// 3. `weigh_<type>` and `tell_<type>` where raw logprobs are asked for; `weigh_<type>_any` for rows that are
//    not aligned.
// 4. `report_<type>` where something of what is left is asked for.
// 5. `list_all_<type>` where more than MAX_LISTED logprobs are asked for.
// 6. `judge` for drafts that are judged by laws, and `append` for tokens that were chosen elsewhere.
//
// The rows of a prompt take `skyline_<type>_<form>`, `sum_prompt_<type>`, `tell_prompt_<type>` and `list_all_<type>`.
//
// `ask_<type>` takes an `Ask` and answers a question about a part of a row. `open_<type>` takes an `OpenStep`
// and makes the first messages of a rank, one for each row; `append_each` takes an `AppendStep` and appends
// tokens to the sequences of a rank; `repeat_each` takes a `RepeatStep` and finds what their texts repeat,
// before they are asked. `revise_each` takes a `ReviseStep` and changes sequences between steps. `follow` and
// `settle` take `Requests`: they come before and after the
// kernels of a step where an engine keeps the texts.
//
// The second number of `__launch_bounds__` is how many thread blocks should fit a multiprocessor at once: the
// compiler limits registers so that they do. A read of memory hides behind the other thread blocks, so the
// first pass wants many. What registers may be spilled for it, kernels/compile says.
#include "draw/row.cuh"
#include "record/layout.cuh"
#include "report/list_all.cuh"
#include "report/prompt.cuh"
#include "report/raw_logprobs.cuh"
#include "rows/gauge.cuh"
#include "rows/skyline.cuh"
#include "shard/message.cuh"
#include "shard/question.cuh"
#include "text/append.cuh"
#include "text/repeat.cuh"
#include "text/requests.cuh"
#include "text/revise.cuh"
#include "verify/judge.cuh"

#define SKYLINE(NAME, TYPE, STEPS, ALIGNED, ASKED, EDITS, BLOCKS)                                                    \
    extern "C" __global__ void __launch_bounds__(SKYLINE_THREADS, BLOCKS) NAME(const __grid_constant__ Step step) {  \
        skyline<TYPE, STEPS, ALIGNED, ASKED, EDITS>(step);                                                           \
    }

#define OF_TYPE(NAME, TYPE)                                                                                          \
    SKYLINE(skyline_##NAME##_1, TYPE, 1, true, MAXIMA, false, 8)                                                     \
    SKYLINE(skyline_##NAME##_2, TYPE, 2, true, MAXIMA, false, 8)                                                     \
    SKYLINE(skyline_##NAME##_4, TYPE, 4, true, MAXIMA, false, 6)                                                     \
    SKYLINE(skyline_##NAME##_8, TYPE, 8, true, MAXIMA, false, 4)                                                     \
    SKYLINE(skyline_##NAME##_summed_1, TYPE, 1, true, MASKS_AND_SUMS, false, 6)                                      \
    SKYLINE(skyline_##NAME##_summed_4, TYPE, 4, true, MASKS_AND_SUMS, false, 5)                                      \
    SKYLINE(skyline_##NAME##_summed_8, TYPE, 8, true, MASKS_AND_SUMS, false, 3)                                      \
    SKYLINE(skyline_##NAME##_edited_1, TYPE, 1, true, MAXIMA, true, 4)                                               \
    SKYLINE(skyline_##NAME##_edited_2, TYPE, 2, true, MAXIMA, true, 4)                                               \
    SKYLINE(skyline_##NAME##_edited_4, TYPE, 4, true, MAXIMA, true, 4)                                               \
    SKYLINE(skyline_##NAME##_edited_8, TYPE, 8, true, MAXIMA, true, 3)                                               \
    SKYLINE(skyline_##NAME##_edited_summed_1, TYPE, 1, true, MASKS_AND_SUMS, true, 4)                                \
    SKYLINE(skyline_##NAME##_edited_summed_4, TYPE, 4, true, MASKS_AND_SUMS, true, 4)                                \
    SKYLINE(skyline_##NAME##_edited_summed_8, TYPE, 8, true, MASKS_AND_SUMS, true, 3)                                \
    SKYLINE(skyline_##NAME##_any, TYPE, 2, false, MASKS_AND_SUMS, true, 2)                                           \
    extern "C" __global__ void __launch_bounds__(REPORT_THREADS, 4) weigh_##NAME(const __grid_constant__ Step step) { \
        weigh_rows<TYPE, true>(step);                                                                                \
    }                                                                                                                \
    extern "C" __global__ void __launch_bounds__(REPORT_THREADS, 4) weigh_##NAME##_any(const __grid_constant__ Step step) { \
        weigh_rows<TYPE, false>(step);                                                                               \
    }                                                                                                                \
    extern "C" __global__ void __launch_bounds__(SUM_THREADS, 4) gauge_##NAME(const __grid_constant__ Step step) {   \
        gauge_rows<TYPE, true>(step);                                                                                \
    }                                                                                                                \
    extern "C" __global__ void __launch_bounds__(SUM_THREADS, 4) gauge_##NAME##_any(const __grid_constant__ Step step) { \
        gauge_rows<TYPE, false>(step);                                                                               \
    }                                                                                                                \
    extern "C" __global__ void __launch_bounds__(SUM_THREADS, 4) sum_prompt_##NAME(const __grid_constant__ Step step) { \
        sum_prompt<TYPE, true>(step);                                                                                \
    }                                                                                                                \
    extern "C" __global__ void __launch_bounds__(SUM_THREADS, 4) sum_prompt_##NAME##_any(const __grid_constant__ Step step) { \
        sum_prompt<TYPE, false>(step);                                                                               \
    }                                                                                                                \
    extern "C" __global__ void __launch_bounds__(DRAW_THREADS, 2) tell_prompt_##NAME(const __grid_constant__ Step step) { \
        tell_prompt<TYPE>(step);                                                                                     \
    }                                                                                                                \
    extern "C" __global__ void __launch_bounds__(SORT_THREADS, 1) list_all_##NAME(const __grid_constant__ Step step) { \
        list_all<TYPE>(step);                                                                                        \
    }                                                                                                                \
    extern "C" __global__ void __launch_bounds__(DRAW_THREADS, 2) draw_##NAME##_bare(const __grid_constant__ Step step) { \
        draw_rows<TYPE, BARE>(step);                                                                                 \
    }                                                                                                                \
    extern "C" __global__ void __launch_bounds__(DRAW_THREADS, 2) draw_##NAME##_edited(const __grid_constant__ Step step) { \
        draw_edited<TYPE>(step);                                                                                     \
    }                                                                                                                \
    extern "C" __global__ void __launch_bounds__(DRAW_THREADS, 2) draw_##NAME##_staged(const __grid_constant__ Step step) { \
        draw_rows<TYPE, STAGED>(step);                                                                               \
    }                                                                                                                \
    extern "C" __global__ void __launch_bounds__(DRAW_THREADS, 1) draw_##NAME(const __grid_constant__ Step step) {  \
        draw_rows<TYPE, ANY>(step);                                                                                  \
    }                                                                                                                \
    extern "C" __global__ void __launch_bounds__(DRAW_THREADS, 2) tell_##NAME(const __grid_constant__ Step step) {   \
        tell_rows<TYPE>(step);                                                                                       \
    }                                                                                                                \
    extern "C" __global__ void __launch_bounds__(REPORT_THREADS, 2) report_##NAME(const __grid_constant__ Step step) { \
        sum_report<TYPE>(step);                                                                                      \
    }                                                                                                                \
    extern "C" __global__ void __launch_bounds__(ASK_THREADS, 1) ask_##NAME(const __grid_constant__ Ask ask) {       \
        answer<TYPE>(ask);                                                                                           \
    }                                                                                                                \
    extern "C" __global__ void __launch_bounds__(OPEN_THREADS, 1) open_##NAME(const __grid_constant__ OpenStep step) { \
        open_row<TYPE>(step);                                                                                        \
    }

OF_TYPE(f32, float)
OF_TYPE(f16, __half)
OF_TYPE(bf16, __nv_bfloat16)

// Finds what texts repeat.
extern "C" __global__ void __launch_bounds__(REPEAT_THREADS, 1) repeat(const __grid_constant__ Step step) {
    find_repeats(step);
}

// Finds what the texts of sequences repeat that do not lie together.
extern "C" __global__ void __launch_bounds__(REPEAT_THREADS, 1) repeat_each(const __grid_constant__ RepeatStep step) {
    const Repeating own = step.list[blockIdx.x];
    note_repeats(own.sequence, nullptr, 0, own.repeats, step.vocabulary);
}

// Judges drafts by the laws of their rows.
extern "C" __global__ void __launch_bounds__(JUDGE_THREADS, 1) judge(const __grid_constant__ Step step) {
    judge_draft(step);
}

// Appends the tokens of `results` to their sequences.
extern "C" __global__ void append(const __grid_constant__ Step step) {
    const uint32_t row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < step.rows && step.results[row].status == DRAWN) {
        Sequence& sequence = step.sequences[step.tasks[row].slot];
        append(sequence, &sequence, step.results[row].token);
        // What mirostat learned from the token; NaN: nothing.
        const double mu = step.reports != nullptr ? step.reports[row].mu : sequence.mu;
        if (sequence.mirostat && mu == mu) set_mu(sequence, mu);
    }
}

// Lets new requests follow their texts.
extern "C" __global__ void __launch_bounds__(FOLLOW_THREADS, 1) follow(const __grid_constant__ Requests requests) {
    follow_texts(requests);
}

// Hands tokens and logprobs to the engine, and lets requests move on.
extern "C" __global__ void __launch_bounds__(SETTLE_THREADS, 1) settle(const __grid_constant__ Requests requests) {
    settle_turns(requests);
}

// Appends tokens to sequences that do not lie together.
extern "C" __global__ void append_each(const __grid_constant__ AppendStep step) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < step.count) append(*step.list[i].sequence, step.list[i].sequence, step.list[i].token);
}

// Changes sequences as the host says.
extern "C" __global__ void __launch_bounds__(REVISE_THREADS, 1) revise_each(const __grid_constant__ ReviseStep step) {
    revise_sequence(step);
}
