// Sixteen bytes of logits, held as they came: four of f32, eight of the others.
#pragma once

#include <type_traits>

#include "number.cuh"

template <typename T>
constexpr uint32_t PACKED = 16 / sizeof(T);

// Two logits of sixteen bits, one of f32 twice.
template <typename T>
__device__ __forceinline__ float2 widened_word(uint32_t word) {
    if (sizeof(T) == 4) return make_float2(__uint_as_float(word), __uint_as_float(word));
    if (std::is_same<T, __half>::value) return __half22float2(*reinterpret_cast<const __half2*>(&word));
    return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u));
}

template <typename T>
__device__ __forceinline__ uint32_t larger_or_nan(uint32_t a, uint32_t b) {
    if (sizeof(T) == 4) return __float_as_uint(larger_or_nan(__uint_as_float(a), __uint_as_float(b)));
    return std::is_same<T, __half>::value ? larger_or_nan_f16(a, b) : larger_or_nan_bf16(a, b);
}

// The largest of them; NaN if one is.
template <typename T>
__device__ __forceinline__ float largest_or_nan(uint4 x) {
    const float2 two = widened_word<T>(larger_or_nan<T>(larger_or_nan<T>(x.x, x.y), larger_or_nan<T>(x.z, x.w)));
    return sizeof(T) == 4 ? two.x : larger_or_nan(two.x, two.y);
}

// -inf in every place.
template <typename T>
__device__ __forceinline__ constexpr uint32_t nothing() {
    return sizeof(T) == 4 ? 0xff800000u : std::is_same<T, __half>::value ? 0xfc00fc00u : 0xff80ff80u;
}

// Logits of which some may lie past the end, and which need not be aligned; -inf past the end.
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

// What is left of them where a bit each says so, the first in the lowest.
template <typename T>
__device__ __forceinline__ uint4 masked(uint4 x, uint32_t bits) {
    const auto word = [bits](uint32_t word, uint32_t i) {
        if (sizeof(T) == 4) return bits >> i & 1 ? word : nothing<T>();
        const uint32_t kept = (bits >> 2 * i & 1 ? 0xffffu : 0) | (bits >> 2 * i & 2 ? 0xffff0000u : 0);
        return (word & kept) | (nothing<T>() & ~kept);
    };
    return make_uint4(word(x.x, 0), word(x.y, 1), word(x.z, 2), word(x.w, 3));
}

// `each(logit, place)` for every one, in their order.
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
