// Single instructions that C++ has no word for. emulate/cuda.hpp has what stands in for them where there is
// no GPU.
#pragma once

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline_primitives.h>
#include <stdint.h>

// log2(x), about: within 2^-22, absolutely between 1/2 and 2 and relatively elsewhere (PTX ISA, lg2.approx).
// Volatile, so that the compiler does not move it into a branch.
__device__ __forceinline__ float log2_about(float x) {
    float log2;
    asm volatile("lg2.approx.ftz.f32 %0, %1;" : "=f"(log2) : "f"(x));
    return log2;
}

// 2^x, about: within two units in the last place (PTX ISA, ex2.approx).
__device__ __forceinline__ float exp2_about(float x) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

// The larger number; NaN if one of them is NaN. The other two take two 16-bit numbers per word, each by
// itself.
__device__ __forceinline__ float larger_or_nan(float a, float b) {
    float c;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}
__device__ __forceinline__ uint32_t larger_or_nan_f16(uint32_t a, uint32_t b) {
    uint32_t c;
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));
    return c;
}
__device__ __forceinline__ uint32_t larger_or_nan_bf16(uint32_t a, uint32_t b) {
    uint32_t c;
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));
    return c;
}

// Sixteen bytes that are read once: they take no place in the first cache, which is left to what is read
// again.
__device__ __forceinline__ uint4 sixteen_once(const void* at) {
    uint4 x;
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "l"(at));
    return x;
}

// The next kernel of the stream may begin, and do what it does not need this kernel's results for.
__device__ __forceinline__ void let_the_next_begin() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// Waits until the kernel before this one in the stream has ended: everything that it wrote can be read from
// here on.
__device__ __forceinline__ void wait_for_the_one_before() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
#endif
