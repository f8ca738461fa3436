// The parts of CUDA C++ that the kernels use, for a C++ compiler: what they mean on a device, where C++
// leaves it open.
#pragma once

#include <math.h>

#include "threads.hpp"

#define __device__
#define __global__
#define __grid_constant__
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
// Shared memory is static, and an array of it may be declared without its size.
#define __shared__ thread_local

struct alignas(8) uint2 {
    uint32_t x, y;
};
struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};

inline uint2 make_uint2(uint32_t x, uint32_t y) { return {x, y}; }
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

// ---- bits and numbers ----

template <typename To, typename From>
To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "as many bits");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

inline uint32_t __float_as_uint(float x) { return bits_as<uint32_t>(x); }
inline int __float_as_int(float x) { return bits_as<int>(x); }
inline float __uint_as_float(uint32_t x) { return bits_as<float>(x); }
inline float __int_as_float(int x) { return bits_as<float>(x); }
inline int64_t __double_as_longlong(double x) { return bits_as<int64_t>(x); }
inline double __longlong_as_double(int64_t x) { return bits_as<double>(x); }
inline int __popc(uint32_t x) { return __builtin_popcount(x); }
inline int __ffs(uint32_t x) { return __builtin_ffs(int(x)); }
inline int __clzll(uint64_t x) { return x == 0 ? 64 : __builtin_clzll(x); }
inline uint32_t __umulhi(uint32_t a, uint32_t b) { return uint32_t(uint64_t(a) * b >> 32); }
inline uint64_t __umul64hi(uint64_t a, uint64_t b) { return uint64_t((unsigned __int128)a * b >> 64); }
inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double __dsqrt_rn(double x) { return sqrt(x); }

// A number that does not fit becomes the nearest that does, and NaN becomes 0.
inline uint64_t __double2ull_rz(double x) { return !(x > 0.0) ? 0 : x >= 0x1p64 ? ~0ull : uint64_t(x); }
inline uint64_t __float2ull_rz(float x) { return __double2ull_rz(double(x)); }

template <typename T>
T min(T a, T b) {
    return b < a ? b : a;
}
template <typename T>
T max(T a, T b) {
    return a < b ? b : a;
}

// As on a device: +0 is above -0, and a number is above NaN.
inline float larger_of(float a, float b) { return a != a ? b : b != b ? a : a == b ? (signbit(a) ? b : a) : a > b ? a : b; }
inline float smaller_of(float a, float b) { return a != a ? b : b != b ? a : a == b ? (signbit(a) ? a : b) : a < b ? a : b; }
#define fmaxf larger_of
#define fminf smaller_of

// ---- logits of sixteen bits ----

struct __half {
    uint16_t bits;
};
struct __half2 {
    __half x, y;
};
struct __nv_bfloat16 {
    uint16_t bits;
};

inline float __half2float(__half x) { return float(bits_as<_Float16>(x.bits)); }
inline float2 __half22float2(__half2 x) { return {__half2float(x.x), __half2float(x.y)}; }
inline uint16_t __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }

// ---- memory ----

template <typename T>
T __ldg(const T* at) {
    return *at;
}
template <typename T>
T __ldcg(const T* at) {
    return *at;
}

// Threads take turns: whatever one does between two waits is atomic for the others.
template <typename T>
T exchanged(T* at, T other) {
    const T was = *at;
    *at = other;
    return was;
}
template <typename T, typename V>
T atomicAdd(T* at, V more) {
    return exchanged(at, T(*at + T(more)));
}
template <typename T, typename V>
T atomicSub(T* at, V less) {
    return exchanged(at, T(*at - T(less)));
}
template <typename T>
T atomicOr(T* at, T bits) {
    return exchanged(at, T(*at | bits));
}
template <typename T>
T atomicMax(T* at, T other) {
    return exchanged(at, max(*at, other));
}
template <typename T>
T atomicMin(T* at, T other) {
    return exchanged(at, min(*at, other));
}

template <typename T>
T atomicExch(T* at, T other) {
    return exchanged(at, other);
}

inline void __threadfence() {}

// A copy is made when it is waited for, and no sooner.
inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes) {
    if ((bytes != 4 && bytes != 8 && bytes != 16) || uintptr_t(to) % bytes != 0 || uintptr_t(from) % bytes != 0) emulated::fail("a copy of such a size or place");
    emulated::running->copies.push_back([=]() { memcpy(to, from, bytes); });
}
inline void __pipeline_commit() { emulated::running->committed = emulated::running->copies.size(); }
inline void __pipeline_wait_prior(int prior) {
    if (prior != 0 || emulated::running->committed != emulated::running->copies.size()) emulated::fail("copies that were not committed, or not all are waited for");
    emulated::running->committed = 0;
    for (const auto& copy : emulated::running->copies) copy();
    emulated::running->copies.clear();
}

// ---- together ----

inline void __syncthreads() { emulated::meet(emulated::BARRIER, false); }
inline int __syncthreads_count(bool is_true) { return int(emulated::meet(emulated::COUNT, is_true)); }
inline int __syncthreads_or(bool is_true) { return emulated::meet(emulated::ANY_OR_ALL, is_true) > 0; }
inline int __syncthreads_and(bool is_true) { return emulated::meet(emulated::ANY_OR_ALL, !is_true) == 0; }
inline void __syncwarp() { emulated::meet_warp(emulated::WARP, 0xffffffffu, 0); }

template <typename T>
uint64_t to_bits(T x) {
    uint64_t bits = 0;
    memcpy(&bits, &x, sizeof x);
    return bits;
}
template <typename T>
T from_bits(uint64_t bits) {
    T x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

template <typename T>
T __shfl_sync(uint32_t mask, T x, uint32_t lane) {
    return from_bits<T>(emulated::meet_warp(emulated::SHUFFLE, mask, to_bits(x))[lane % 32]);
}
template <typename T>
T __shfl_xor_sync(uint32_t mask, T x, uint32_t offset) {
    const uint32_t lane = threadIdx.x % 32;
    return __shfl_sync(mask, x, lane ^ offset);
}
template <typename T>
T __shfl_up_sync(uint32_t mask, T x, uint32_t offset) {
    const uint32_t lane = threadIdx.x % 32;
    return __shfl_sync(mask, x, lane >= offset ? lane - offset : lane);
}
inline uint32_t __ballot_sync(uint32_t mask, bool is_true) {
    const uint64_t* const all = emulated::meet_warp(emulated::BALLOT, mask, is_true);
    uint32_t bits = 0;
    for (uint32_t lane = 0; lane < 32; lane++) bits |= uint32_t(all[lane]) << lane;
    return bits;
}
inline bool __any_sync(uint32_t mask, bool is_true) { return __ballot_sync(mask, is_true) != 0; }
inline uint32_t __reduce_add_sync(uint32_t mask, uint32_t x) {
    const uint64_t* const all = emulated::meet_warp(emulated::SUM, mask, x);
    uint32_t sum = 0;
    for (uint32_t lane = 0; lane < 32; lane++) sum += uint32_t(all[lane]);
    return sum;
}
inline int __reduce_max_sync(uint32_t mask, int x) {
    const uint64_t* const all = emulated::meet_warp(emulated::LARGEST, mask, to_bits(x));
    int most = from_bits<int>(all[0]);
    for (uint32_t lane = 1; lane < 32; lane++) most = max(most, from_bits<int>(all[lane]));
    return most;
}

// ---- kernels/number/instruction.cuh ----

// What a device computes approximately is off by two units in the last place here, one way or the other, so
// that code which trusts it more fails.
inline float perturbed(float x) {
    const uint32_t bits = __float_as_uint(x);
    if (!(fabsf(x) >= 0x1p-120f && fabsf(x) < 0x1p120f)) return x;
    return __uint_as_float(bits - 2 + 4 * (bits * 0x9e3779b1u >> 31));
}
inline float log2_about(float x) { return perturbed(log2f(x)); }
inline float exp2_about(float x) { return perturbed(exp2f(x)); }

inline float larger_or_nan(float a, float b) { return a != a || b != b ? __uint_as_float(0x7fffffffu) : larger_of(a, b); }
template <typename Widen>
uint32_t larger_halves(uint32_t a, uint32_t b, Widen widen) {
    uint32_t both = 0;
    for (int shift = 0; shift < 32; shift += 16) {
        const uint16_t x = uint16_t(a >> shift), y = uint16_t(b >> shift);
        const float v = widen(x), w = widen(y);
        both |= uint32_t(v != v || w != w ? uint16_t(0x7fff) : larger_of(v, w) == v && signbit(larger_of(v, w)) == signbit(v) ? x : y) << shift;
    }
    return both;
}
inline uint32_t larger_or_nan_f16(uint32_t a, uint32_t b) {
    return larger_halves(a, b, [](uint16_t x) { return __half2float({x}); });
}
inline uint32_t larger_or_nan_bf16(uint32_t a, uint32_t b) {
    return larger_halves(a, b, [](uint16_t x) { return __uint_as_float(uint32_t(x) << 16); });
}

inline uint4 sixteen_once(const void* at) { return *static_cast<const uint4*>(at); }
inline void let_the_next_begin() { emulated::let_next_begin(); }
inline void wait_for_the_one_before() { emulated::wait_for_previous(); }
