// The kernels by name: skyline_<type>_<steps>, skyline_<type>_any for rows that are not aligned, and draw_<type>.
#include "draw.cuh"
#include "skyline.cuh"

#define SKYLINE(NAME, TYPE, STEPS, ALIGNED)                                                                                                              \
    extern "C" __global__ void __launch_bounds__(SKYLINE_THREADS) NAME(const Row* rows, const TYPE* logits, int64_t stride, uint32_t vocabulary, Peak* peaks, float* sums, \
                                                                       uint32_t pitch, uint32_t* bad) {                                                  \
        skyline<TYPE, STEPS, ALIGNED>(rows, logits, stride, vocabulary, peaks, sums, pitch, bad);                                                              \
    }

#define OF_TYPE(NAME, TYPE)                                                                                                                               \
    SKYLINE(skyline_##NAME##_1, TYPE, 1, true)                                                                                                            \
    SKYLINE(skyline_##NAME##_2, TYPE, 2, true)                                                                                                            \
    SKYLINE(skyline_##NAME##_4, TYPE, 4, true)                                                                                                            \
    SKYLINE(skyline_##NAME##_8, TYPE, 8, true)                                                                                                            \
    SKYLINE(skyline_##NAME##_any, TYPE, 2, false)                                                                                                         \
    extern "C" __global__ void __launch_bounds__(DRAW_THREADS, 2) draw_##NAME(Row* rows, const TYPE* logits, int64_t stride, uint32_t vocabulary, const Peak* peaks, const float* sums, \
                                                                              uint32_t pitch, uint32_t* bad, Result* results) {                          \
        __shared__ Draw<TYPE> draw;                                                                                                                       \
        extern __shared__ float memory[];                                                                                                                 \
        const uint32_t row = blockIdx.x, blocks = (vocabulary + BLOCK - 1) / BLOCK;                                                                       \
        if (threadIdx.x == 0) {                                                                                                                           \
            draw.logits = logits + int64_t(row) * stride;                                                                                                 \
            draw.highest = memory;                                                                                                                        \
            draw.lucks = memory + blocks;                                                                                                                 \
            draw.work = reinterpret_cast<uint32_t*>(memory + 2 * blocks);                                                                                 \
            draw.opened = reinterpret_cast<uint16_t*>(memory + 3 * blocks);                                                                               \
            draw.sums = sums + uint64_t(row) * pitch;                                                                                                     \
            draw.vocabulary = vocabulary;                                                                                                                 \
            draw.blocks = blocks;                                                                                                                         \
        }                                                                                                                                                 \
        __syncthreads();                                                                                                                                  \
        const Result result = draw.draw(rows + row, peaks + uint64_t(row) * pitch, bad + row);                                                            \
        if (threadIdx.x == 0) results[row] = result;                                                                                                      \
    }

OF_TYPE(f32, float)
OF_TYPE(f16, __half)
OF_TYPE(bf16, __nv_bfloat16)
