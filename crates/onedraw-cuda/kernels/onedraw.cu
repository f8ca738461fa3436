// The kernels by name, each with a `Step` as its argument: skyline_<type>_<steps>, skyline_<type>_edited_<steps> where
// a sequence edits single tokens or asks for raw logprobs, skyline_<type>_any for rows that are not aligned, draw_<type>,
// report_<type> where logprobs are asked for, and append.
#include "draw.cuh"
#include "skyline.cuh"

#define SKYLINE(NAME, TYPE, STEPS, ALIGNED, EDITS)                                                                   \
    extern "C" __global__ void __launch_bounds__(SKYLINE_THREADS, EDITS ? 2 : STEPS <= 2 ? 8 : STEPS == 4 ? 6 : 4) NAME(const __grid_constant__ Step step) { \
        skyline<TYPE, STEPS, ALIGNED, EDITS>(step);                                                                   \
    }

#define OF_TYPE(NAME, TYPE)                                                                                          \
    SKYLINE(skyline_##NAME##_1, TYPE, 1, true, false)                                                                \
    SKYLINE(skyline_##NAME##_2, TYPE, 2, true, false)                                                                \
    SKYLINE(skyline_##NAME##_4, TYPE, 4, true, false)                                                                \
    SKYLINE(skyline_##NAME##_8, TYPE, 8, true, false)                                                                \
    SKYLINE(skyline_##NAME##_edited_1, TYPE, 1, true, true)                                                          \
    SKYLINE(skyline_##NAME##_edited_4, TYPE, 4, true, true)                                                          \
    SKYLINE(skyline_##NAME##_any, TYPE, 2, false, true)                                                              \
    extern "C" __global__ void __launch_bounds__(DRAW_THREADS, 2) draw_##NAME(const __grid_constant__ Step step) {    \
        draw_row<TYPE>(step);                                                                                         \
    }                                                                                                                \
    extern "C" __global__ void __launch_bounds__(REPORT_THREADS) report_##NAME(const __grid_constant__ Step step) {   \
        sum_report<TYPE>(step);                                                                                       \
    }

OF_TYPE(f32, float)
OF_TYPE(f16, __half)
OF_TYPE(bf16, __nv_bfloat16)

// Appends the tokens of `results` to their sequences.
extern "C" __global__ void append(const __grid_constant__ Step step) {
    const uint32_t row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < step.rows && step.results[row].status == DRAWN) append(step.sequences[step.tasks[row].slot], step.results[row].token);
}
