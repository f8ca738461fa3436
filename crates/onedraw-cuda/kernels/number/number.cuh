// The library's arithmetic (crates/onedraw/src/numeric/: math.rs, noise.rs, mass.rs, key.rs), operation by
// operation.
//
// The naive way would be CUDA's own logf, expf and so on. What is done instead:
//
// 1. Every function that a result depends on repeats the operations of its Rust twin, in their order and with
//    their constants. IEEE 754 fixes the result of each addition, product, division and fused multiply-add,
//    so the bits are the same. For this the kernels are built with --fmad=false (a product and a sum are two
//    roundings unless __fmaf_rn stands there), without fast-math, and nothing is flushed to zero.
// 2. `rough_*` and `power_of` use approximate instructions. Nothing that is reported or drawn depends on
//    their bits: they only decide what is computed exactly, with the margins that MARGIN and SUM_ERROR
//    (draw/limits.cuh) leave for their errors.
// 3. Sums over tokens are sums of integers, and choices are maxima of totally ordered numbers. Neither
//    depends on the order in which threads come, so a result does not depend on the shape of the grid.
#pragma once

#include "../record/shared.cuh"

// The weight of the best token (mass.rs: UNIT).
constexpr uint64_t UNIT = 1ull << 43;
// The mask of instructions that all 32 lanes of a warp execute together.
constexpr uint32_t ALL_LANES = 0xffffffffu;
// f32::MAX.
constexpr float LARGEST_FLOAT = 3.402823466e+38f;
// log2(e), rounded to f32.
constexpr float LOG2_E_F32 = 1.44269504f;

// ---- numeric/math.rs ----

// The natural logarithm of a normal number above 0, without a branch: callers have no other. (math.rs: ln.) `shift` is
// subtracted from its exponent.
__device__ __forceinline__ double ln_scaled(double x, int shift) {
    constexpr double LN2_HIGH = 0x1.62e42fee00000p-1;
    constexpr double LN2_LOW = 0x1.a39ef35793c76p-33;
    constexpr double SQRT_2 = 1.41421356237309504880168872420969808;
    const uint64_t bits = __double_as_longlong(x);
    const double unit = __longlong_as_double((bits & ((1ull << 52) - 1)) | (1023ull << 52));
    const bool is_high = unit > SQRT_2;
    const double m = is_high ? unit * 0.5 : unit;
    const double e = double(int(bits >> 52) - 1023 - shift + int(is_high));
    const double f = m - 1.0;
    const double s = f / (2.0 + f);
    const double z = s * s;
    double r = 2.0 / 21.0;
    r = r * z + 2.0 / 19.0;
    r = r * z + 2.0 / 17.0;
    r = r * z + 2.0 / 15.0;
    r = r * z + 2.0 / 13.0;
    r = r * z + 2.0 / 11.0;
    r = r * z + 2.0 / 9.0;
    r = r * z + 2.0 / 7.0;
    r = r * z + 2.0 / 5.0;
    r = r * z + 2.0 / 3.0;
    r *= z;
    return e * LN2_HIGH + (f - (s * (f - r) - e * LN2_LOW));
}
__device__ __forceinline__ double ln(double x) { return ln_scaled(x, 0); }

// The natural logarithm of any number. (math.rs: ln; `ln` alone has normal numbers above 0.)
__device__ __noinline__ double ln_of_any(double x) {
    if (!(x >= 0.0)) return __longlong_as_double(0x7ff8000000000000ll);
    if (x == 0.0) return -__longlong_as_double(0x7ff0000000000000ll);
    if (x == __longlong_as_double(0x7ff0000000000000ll)) return x;
    if (x < 0x1p-1022) {
        // As math.rs: the exponent is corrected before the sum, so the bits are those of a scaled number.
        return ln_scaled(x * 0x1p54, 54);
    }
    return ln(x);
}

// 2^n for n in -1022 to 1023.
__device__ __forceinline__ double power_of_two(int n) { return __longlong_as_double(int64_t(n + 1023) << 52); }

// The exponential of a number. (math.rs: exp; callers have no NaN.)
__device__ __noinline__ double exponential_of(double x) {
    constexpr double LN2_HIGH = 0x1.62e42fee00000p-1;
    constexpr double LN2_LOW = 0x1.a39ef35793c76p-33;
    constexpr double LOG2_E = 1.44269504088896340735992468100189214;
    constexpr double ROUND = 6755399441055744.0;
    if (x > 709.79) return __longlong_as_double(0x7ff0000000000000ll);
    if (x < -745.14) return 0.0;
    const double n = (x * LOG2_E + ROUND) - ROUND;
    const double r = (x - n * LN2_HIGH) - n * LN2_LOW;
    double tail = 1.0 / 6227020800.0;
    tail = tail * r + 1.0 / 479001600.0;
    tail = tail * r + 1.0 / 39916800.0;
    tail = tail * r + 1.0 / 3628800.0;
    tail = tail * r + 1.0 / 362880.0;
    tail = tail * r + 1.0 / 40320.0;
    tail = tail * r + 1.0 / 5040.0;
    tail = tail * r + 1.0 / 720.0;
    tail = tail * r + 1.0 / 120.0;
    tail = tail * r + 1.0 / 24.0;
    tail = tail * r + 1.0 / 6.0;
    tail = tail * r + 1.0 / 2.0;
    const double power = 1.0 + (r + r * r * tail);
    const int whole = int(n);
    if (whole >= -1021 && whole <= 1023) return power * power_of_two(whole);
    if (whole > 1023) return power * 2.0 * power_of_two(whole - 1);
    return power * power_of_two(whole + 64) * power_of_two(-64);
}

// A number of 128 bits, rounded once to f64, to the nearest and ties to even, as Rust's `as f64` does it.
__device__ __forceinline__ double nearest(unsigned __int128 number) {
    const uint64_t high = uint64_t(number >> 64), low = uint64_t(number);
    if (high == 0) return double(low);
    const int shift = 64 - __clzll(high);
    // The upper 64 bits; the last of them is also set if any bit below them is. These round to 53 bits as all
    // bits would.
    const uint64_t top = uint64_t(number >> shift), rest = uint64_t(number << (128 - shift) >> 64);
    return double(top | (rest != 0)) * power_of_two(shift);
}

// ---- numeric/noise.rs ----

// The noise of one draw.
struct Noise {
    uint64_t seed;
    uint32_t position, sequence, round;
};

// Philox4x32 with ten rounds.
__device__ __forceinline__ uint4 philox(uint2 key, uint4 c) {
#pragma unroll
    for (int i = 0; i < 10; i++) {
        const uint32_t high0 = __umulhi(c.x, 0xd2511f53u), low0 = c.x * 0xd2511f53u;
        const uint32_t high1 = __umulhi(c.z, 0xcd9e8d57u), low1 = c.z * 0xcd9e8d57u;
        c = make_uint4(high1 ^ c.y ^ key.x, low1, high0 ^ c.w ^ key.y, low0);
        key.x += 0x9e3779b9u;
        key.y += 0xbb67ae85u;
    }
    return c;
}

// Four random words of one purpose.
__device__ __forceinline__ uint4 words(const Noise& noise, Purpose purpose, uint32_t index) {
    const uint2 key = make_uint2(uint32_t(noise.seed), uint32_t(noise.seed >> 32));
    return philox(key, make_uint4(index, noise.position, noise.sequence, uint32_t(purpose) | noise.round << 8));
}

// One of four words, without a branch and without an array in local memory.
__device__ __forceinline__ uint32_t word(uint4 words, uint32_t place) {
    const uint32_t low = place & 1 ? words.y : words.x, high = place & 1 ? words.w : words.z;
    return place & 2 ? high : low;
}

// Exp(1) from 32 bits.
__device__ __forceinline__ double exponential(uint32_t bits) {
    return -ln(1.0 - (double(bits) + 0.5) / 4294967296.0);
}

// ln(x) in f32, about.
__device__ __forceinline__ float rough_ln(float x) { return log2_about(x) * 0.693147181f; }

// 2^t in f32, about.
__device__ __forceinline__ float power_of(float t) { return exp2_about(t); }

// `exponential` in f32, within a factor of 1 +- 2^-14. -ln(1 - u) loses its digits where u is small: below
// 2^-6 three terms of the series u + u^2/2 + u^3/3 are taken, whose rest is below 2^-20 of it. Above, 1 - u
// is computed from the inverted bits, (~bits + 1/2) / 2^32, so that it is precise near 0; there the logarithm
// is at least 2^-6 and its error below 2^-21.
__device__ __forceinline__ float rough_exponential(uint32_t bits) {
    const float u = (float(bits) + 0.5f) * 0x1p-32f, rest = (float(~bits) + 0.5f) * 0x1p-32f;
    const float series = u * (1.0f + u * (0.5f + u * 0.333333f)), logarithm = -rough_ln(rest);
    return u < 0x1p-6f ? series : logarithm;
}

// ---- numeric/mass.rs ----

// How logits become weights: 2^t, t = (x - x_max) * scale, scale = log2(e) / T.
struct Softmax {
    float x_max, scale;
};

// 2^t * 2^43 for a t that is not above 0. (mass.rs: exp2_scaled.)
__device__ __forceinline__ float exp2_scaled(float t) {
    constexpr float ROUND = 12582912.0f;
    t = t > -64.0f ? t : -64.0f;
    // The nearest integer to t is in the last bits of this sum. mass.rs takes it as `n as i32`; shifting the
    // sum's bits left by 23 leaves the same exponent.
    const float rounded = t + ROUND;
    const float f = t - (rounded - ROUND);
    float q = __uint_as_float(0x392385a5u);
    q = __fmaf_rn(q, f, __uint_as_float(0x3aafb93bu));
    q = __fmaf_rn(q, f, __uint_as_float(0x3c1d9387u));
    q = __fmaf_rn(q, f, __uint_as_float(0x3d635739u));
    q = __fmaf_rn(q, f, __uint_as_float(0x3e75fdf1u));
    q = __fmaf_rn(q, f, __uint_as_float(0x3f317219u));
    const float power = __fmaf_rn(q, f, 1.0f);
    return power * __uint_as_float((__float_as_uint(rounded) << 23) + ((43u + 127u) << 23));
}

// A token's weight: floor(2^t * 2^43).
__device__ __forceinline__ uint64_t weight(Softmax softmax, float x) {
    const float t = (x - softmax.x_max) * softmax.scale;
    return __float2ull_rz(exp2_scaled(t < 0.0f ? t : 0.0f));
}

// The weight of a logit that is known not to be above `x_max`.
__device__ __forceinline__ uint64_t weight_below(Softmax softmax, float x) { return __float2ull_rz(exp2_scaled((x - softmax.x_max) * softmax.scale)); }

// A token's share of the entropy: floor(2^t * 2^43 * |t|).
__device__ __forceinline__ uint64_t surprise(Softmax softmax, float x) {
    float t = (x - softmax.x_max) * softmax.scale;
    t = t > -64.0f ? t : -64.0f;
    return __float2ull_rz(exp2_scaled(t < 0.0f ? t : 0.0f) * -t);
}

// Both, of a logit that is known not to be above `x_max`: one power serves the two.
struct Weighed {
    uint64_t weight, surprise;
};
__device__ __forceinline__ Weighed weighed_below(Softmax softmax, float x) {
    float t = (x - softmax.x_max) * softmax.scale;
    t = t > -64.0f ? t : -64.0f;
    const float power = exp2_scaled(t);
    return {__float2ull_rz(power), __float2ull_rz(power * -t)};
}

// A mass in units of the best token's.
__device__ __forceinline__ double relative(uint64_t mass) { return double(mass) / double(UNIT); }

// ---- numeric/key.rs ----

// A token's place in the order (logit descending, then id ascending) as one number: the logit in the upper 32
// bits, coded so that larger logits are smaller numbers, and the id below. A smaller key comes earlier. -0
// has the key of +0.
typedef uint64_t Key;

// The upper half of a key: the "place" of a logit.
__device__ __forceinline__ uint32_t descending(float logit) {
    const uint32_t bits = __float_as_uint(logit + 0.0f);
    return ~(bits >> 31 ? ~bits : bits | 0x80000000u);
}

__device__ __forceinline__ Key key_of(float logit, uint32_t token) { return uint64_t(descending(logit)) << 32 | token; }

__device__ __forceinline__ float logit_of_place(uint32_t place) {
    const uint32_t bits = ~place;
    return __uint_as_float(bits >> 31 ? bits ^ 0x80000000u : ~bits);
}

// The lowest x with x - x_max >= reach, both in f64. The f32 nearest to x_max + reach is that one or its
// neighbour; the loops test the definition itself.
__device__ __forceinline__ float lowest_within(double x_max, double reach) {
    uint32_t place = descending(float(x_max + reach));
    while (!(double(logit_of_place(place)) - x_max >= reach)) place--;
    while (double(logit_of_place(place + 1)) - x_max >= reach && place + 1 <= descending(-LARGEST_FLOAT)) place++;
    return logit_of_place(place);
}

__device__ __forceinline__ float logit_of(Key key) { return logit_of_place(uint32_t(key >> 32)); }

// The last key that a token of this logit can have.
__device__ __forceinline__ Key last_of(float logit) { return key_of(logit, 0xffffffffu); }

// The last key of a token that is alive: after all of these, and before the keys of -inf.
__device__ __forceinline__ Key key_end() { return key_of(-LARGEST_FLOAT, 0xffffffffu); }

__device__ __forceinline__ float positive_infinity() { return __uint_as_float(0x7f800000u); }
__device__ __forceinline__ float negative_infinity() { return __uint_as_float(0xff800000u); }

// ---- logits of any type, widened exactly ----

__device__ __forceinline__ float widened(float x) { return x; }
__device__ __forceinline__ float widened(__half x) { return __half2float(x); }
__device__ __forceinline__ float widened(__nv_bfloat16 x) { return __uint_as_float(uint32_t(__bfloat16_as_ushort(x)) << 16); }

__device__ __forceinline__ float4 widened_four(uint2 raw, __half) {
    const float2 a = __half22float2(*reinterpret_cast<const __half2*>(&raw.x)), b = __half22float2(*reinterpret_cast<const __half2*>(&raw.y));
    return make_float4(a.x, a.y, b.x, b.y);
}
__device__ __forceinline__ float4 widened_four(uint2 raw, __nv_bfloat16) {
    return make_float4(__uint_as_float(raw.x << 16), __uint_as_float(raw.x & 0xffff0000u), __uint_as_float(raw.y << 16), __uint_as_float(raw.y & 0xffff0000u));
}
// Four consecutive logits, from an address that is a multiple of their size together.
__device__ __forceinline__ float4 four(const float* at) { return __ldg(reinterpret_cast<const float4*>(at)); }
template <typename Half>
__device__ __forceinline__ float4 four(const Half* at) {
    return widened_four(__ldg(reinterpret_cast<const uint2*>(at)), Half());
}

__device__ __forceinline__ float one(const float* at) { return __ldg(at); }
__device__ __forceinline__ float one(const __half* at) { return __half2float(__ldg(at)); }
__device__ __forceinline__ float one(const __nv_bfloat16* at) { return widened(__ldg(at)); }
