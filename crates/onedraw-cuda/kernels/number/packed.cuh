// Sixteen bytes of logits, in four words, in their own type: four f32, or eight f16 or bf16.
//
// The naive way is to widen every logit to f32 and then work on it. Here maxima and masks are taken on the
// packed words, two 16-bit logits per instruction, and only what is left of them is widened. That is exact:
// widening is exact and keeps the order, so the largest of the narrow numbers widens to the largest of the
// wide ones; a mask only chooses between a number and -inf. bf16 rows of 128,256 logits take 0.63 of the time
// of f32 rows this way, and took 0.78 of it with eight bytes per read (bench/results/2026-11-16-cuda.md).
#pragma once

#include <type_traits>

#include "number.cuh"

// Logits in sixteen bytes.
template <typename T>
constexpr uint32_t PACKED = 16 / sizeof(T);

// The two 16-bit logits of a word; of f32 the one logit, twice.
template <typename T>
__device__ __forceinline__ float2 widened_word(uint32_t word) {
    if (sizeof(T) == 4) return make_float2(__uint_as_float(word), __uint_as_float(word));
    if (std::is_same<T, __half>::value) return __half22float2(*reinterpret_cast<const __half2*>(&word));
    return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u));
}

// The larger logits of two words, each half of a word by itself; NaN where one of two is NaN.
template <typename T>
__device__ __forceinline__ uint32_t larger_or_nan(uint32_t a, uint32_t b) {
    if (sizeof(T) == 4) return __float_as_uint(larger_or_nan(__uint_as_float(a), __uint_as_float(b)));
    return std::is_same<T, __half>::value ? larger_or_nan_f16(a, b) : larger_or_nan_bf16(a, b);
}

// The largest of all logits of four words; NaN if one of them is NaN.
template <typename T>
__device__ __forceinline__ float largest_or_nan(uint4 x) {
    const float2 two = widened_word<T>(larger_or_nan<T>(larger_or_nan<T>(x.x, x.y), larger_or_nan<T>(x.z, x.w)));
    return sizeof(T) == 4 ? two.x : larger_or_nan(two.x, two.y);
}

// A word of -inf.
template <typename T>
__device__ __forceinline__ constexpr uint32_t nothing() {
    return sizeof(T) == 4 ? 0xff800000u : std::is_same<T, __half>::value ? 0xfc00fc00u : 0xff80ff80u;
}

// Four words that begin with logit `token`, read one logit at a time: for rows that are not aligned, and for
// the end of a row. Logits past the end are -inf.
template <typename T>
__device__ __forceinline__ uint4 gathered(const T* at, uint32_t token, uint32_t vocabulary) {
    uint32_t found[4];
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        found[i] = nothing<T>();
        const uint32_t first = token + i * (PACKED<T> / 4);
        if (sizeof(T) == 4) {
            if (first < vocabulary) found[i] = reinterpret_cast<const uint32_t*>(at)[first];
        } else {
            if (first < vocabulary) found[i] = (found[i] & 0xffff0000u) | reinterpret_cast<const uint16_t*>(at)[first];
            if (first + 1 < vocabulary) found[i] = (found[i] & 0xffffu) | uint32_t(reinterpret_cast<const uint16_t*>(at)[first + 1]) << 16;
        }
    }
    return make_uint4(found[0], found[1], found[2], found[3]);
}

// The logits whose bit is set, the first logit's in the lowest bit, and -inf for the others.
template <typename T>
__device__ __forceinline__ uint4 masked(uint4 x, uint32_t bits) {
    const auto word = [bits](uint32_t word, uint32_t i) {
        if (sizeof(T) == 4) return bits >> i & 1 ? word : nothing<T>();
        const uint32_t kept = (bits >> 2 * i & 1 ? 0xffffu : 0) | (bits >> 2 * i & 2 ? 0xffff0000u : 0);
        return (word & kept) | (nothing<T>() & ~kept);
    };
    return make_uint4(word(x.x, 0), word(x.y, 1), word(x.z, 2), word(x.w, 3));
}

// Calls `each(logit, place)` for every logit, in their order.
template <typename T, typename Each>
__device__ __forceinline__ void over_packed(uint4 x, Each each) {
    const uint32_t words[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        const float2 two = widened_word<T>(words[i]);
        each(two.x, i * (PACKED<T> / 4));
        if (sizeof(T) == 2) each(two.y, 2 * i + 1);
    }
}
