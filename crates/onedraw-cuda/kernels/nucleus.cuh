// Whether a token is in the nucleus of TOP_P: asked after the draw, first of what the first pass knows of blocks, then of the tokens. Part of draw.cuh.
#pragma once

#include "draw.cuh"

template <typename T, bool BARE>
__device__ __noinline__ Bounds Draw<T, BARE>::between(float least, float most) {
    const uint32_t lane = threadIdx.x & 31;
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) {
        least += __shfl_xor_sync(ALL, least, offset);
        most += __shfl_xor_sync(ALL, most, offset);
    }
    __syncthreads();
    if (lane == 0) {
        tops[threadIdx.x >> 5] = least;
        other_tops[threadIdx.x >> 5] = most;
    }
    __syncthreads();
    least = tops[lane & (WARPS - 1)];
    most = other_tops[lane & (WARPS - 1)];
#pragma unroll
    for (int offset = WARPS / 2; offset > 0; offset >>= 1) {
        least += __shfl_xor_sync(ALL, least, offset);
        most += __shfl_xor_sync(ALL, most, offset);
    }
    const float low = least * float(UNIT) * (1.0f - SUM_ERROR) - float(vocabulary);
    return {low > 0.0f ? __float2ull_rz(low) : 0, __float2ull_rz(most * float(UNIT) * (1.0f + SUM_ERROR)) + 1};
}

template <typename T, bool BARE>
__device__ __noinline__ Bounds Draw<T, BARE>::total_mass(uint32_t group, float scale) {
    // A power of two.
    const uint32_t shift = __ffs(group) - 1;
    const uint32_t quads = room / 4, all = (vocabulary + BLOCK - 1) / BLOCK;
    const float top = x_max;
    const float* const references = reinterpret_cast<const float*>(work());
    float mass = 0.0f;
#pragma unroll 1
    for (uint32_t quad = threadIdx.x; quad < quads; quad += DRAW_THREADS) {
        float4 sum = {};
        const uint32_t block = 4 * quad;
        if (block < all) {
            sum = reinterpret_cast<const float4*>(masses())[quad];
            // A group is two blocks, or a multiple of four. What lies past the vocabulary was never written.
            const uint32_t next = block + 2 < all ? (block + 2) >> shift : block >> shift;
            const float first = power_of((references[block >> shift] - top) * scale), second = power_of((references[next] - top) * scale);
            sum = make_float4(first * sum.x, block + 1 < all ? first * sum.y : 0.0f, block + 2 < all ? second * sum.z : 0.0f, block + 3 < all ? second * sum.w : 0.0f);
        }
        reinterpret_cast<float4*>(masses())[quad] = sum;
        mass += (sum.x + sum.y) + (sum.z + sum.w);
    }
    return between(mass, mass);
}

template <typename T, bool BARE>
__device__ __noinline__ float Draw<T, BARE>::bottom_of_nucleus(const Stage& stage, uint64_t total) {
    __syncthreads();
    // In units of 2^-17 of the best token's weight, rounded down here and up there: no more than 2^14 blocks fill 32 bits.
    const float top = x_max, scale = stage.scale, share = float(stage.share) * 0x1p-53f, wanted = share * float(total) * (1.0f + SUM_ERROR) * 0x1p-26f + 1.0f;
    if (wanted >= 0x1p31f) return negative_infinity();
    const uint32_t units = uint32_t(wanted) + 1, quads = room / 4;
    // Logits that are a number of temperatures below the best: four, eight or twelve, then steps of one.
    const float step_of = 1.44269504f / scale;
    float low = 0.0f;
#pragma unroll 1
    for (uint32_t turn = 0; turn < 2; turn++) {
        const float width = (turn == 0 ? 4.0f : 1.0f) * step_of, near = low + width, middle = low + 2 * width, far = low + 3 * width;
        uint3 own = {};
#pragma unroll 1
        for (uint32_t quad = threadIdx.x; quad < quads; quad += DRAW_THREADS) {
            const float4 tallest = reinterpret_cast<const float4*>(highest())[quad];
            const auto add = [&](float x) {
                const float distance = top - x;
                const uint32_t amount = uint32_t(power_of(-distance * scale) * (0x1p17f * (1.0f - SUM_ERROR)));
                own.x += distance < near ? amount : 0;
                own.y += distance < middle ? amount : 0;
                own.z += distance < far ? amount : 0;
            };
            add(tallest.x);
            add(tallest.y);
            add(tallest.z);
            add(tallest.w);
        }
        const uint3 sums = tallied(own, turn);
        low = sums.x >= units ? low : sums.y >= units ? near : sums.z >= units ? middle : far;
    }
    // What is a step farther was enough, or nothing was.
    const float end = low + step_of;
    // A little lower, for what the differences lose.
    return end < 15.5f * step_of ? top - end * (1.0f + 0x1p-20f) - fabsf(top) * 0x1p-22f : negative_infinity();
}

template <typename T, bool BARE>
__device__ __noinline__ Bounds Draw<T, BARE>::mass_before(Key key, float scale, uint64_t total) {
    // So much does not fit the sums below: many tokens are nearly as good as the best.
    if (total >> 57 != 0) return {0, total};
    const uint32_t quads = room / 4;
    const float x = logit_of(key), top = x_max;
    // In units of 2^-17 of the best token's weight, rounded down here and up there.
    constexpr float UNITS = 0x1p17f;
    uint32_t least = 0, most = 0;
#pragma unroll 1
    for (uint32_t quad = threadIdx.x; quad < quads; quad += DRAW_THREADS) {
        const float4 tallest = reinterpret_cast<const float4*>(highest())[quad], mass = reinterpret_cast<const float4*>(masses())[quad];
        // The largest logit of a block comes before it for certain, the rest perhaps; where they are equal the ids decide.
        const auto add = [&](float highest_here, float mass_here) {
            const uint32_t low = uint32_t(power_of((highest_here - top) * scale) * (UNITS * (1.0f - SUM_ERROR))), high = uint32_t(mass_here * (UNITS * (1.0f + SUM_ERROR))) + 1;
            least += highest_here > x ? low : 0;
            most += highest_here >= x ? high : 0;
        };
        add(tallest.x, mass.x);
        add(tallest.y, mass.y);
        add(tallest.z, mass.z);
        add(tallest.w, mass.w);
    }
    __syncthreads();
    const uint3 sums = tallied(make_uint3(least, most, 0), 0);
    // A weight is rounded down.
    const uint64_t floors = vocabulary, low = uint64_t(sums.x) << 26;
    return {low > floors ? low - floors : 0, uint64_t(sums.y) << 26};
}

template <typename T, bool BARE>
__device__ __noinline__ Bounds Draw<T, BARE>::mass_opened(Key key, float scale) {
    const float top = x_max;
    float mass = 0.0f;
    over(collect(logit_of(key)), [&](float x, uint32_t token) {
        if (key_of(x, token) < key) mass += power_of((x - top) * scale);
    });
    return between(mass, mass);
}

template <typename T, bool BARE>
__device__ __noinline__ Bounds Draw<T, BARE>::total_opened(float scale, uint64_t total) {
    const Softmax softmax = {x_max, scale};
    const float least = float(total) * (1.0f / float(UNIT)) * 0x1p-12f;
    const uint32_t quads = room / 4;
    float rest = 0.0f;
#pragma unroll 1
    for (uint32_t quad = threadIdx.x; quad < quads; quad += DRAW_THREADS) {
        const float4 mass = reinterpret_cast<const float4*>(masses())[quad];
        rest += (mass.x >= least ? 0.0f : mass.x) + (mass.y >= least ? 0.0f : mass.y) + (mass.z >= least ? 0.0f : mass.z) + (mass.w >= least ? 0.0f : mass.w);
    }
    uint64_t mass = 0;
    over(collect_where(masses(), [least](float mass) { return mass >= least; }), [&](float x, uint32_t) { mass += weight(softmax, x); });
    const uint64_t exactly = sum(0, mass).mass;
    const Bounds others = between(rest, rest);
    return {exactly + others.least, exactly + others.most};
}

template <typename T, bool BARE>
__device__ __noinline__ bool Draw<T, BARE>::is_in_nucleus(const Stage& stage, Key key, Bounds& total) {
    const uint64_t share = stage.share;
    if (total.least != total.most) {
        const Bounds rough = mass_before(key, stage.scale, total.most);
        if (is_below(rough.most, share, total.least)) return true;
        if (!is_below(rough.least, share, total.most)) return false;
        const Bounds finer = mass_opened(key, stage.scale);
        if (is_below(finer.most, share, total.least)) return true;
        if (!is_below(finer.least, share, total.most)) return false;
        const Bounds opened = total_opened(stage.scale, total.least);
        const uint64_t exactly = census(key - 1, stage.scale).mass;
        if (is_below(exactly, share, opened.least)) return true;
        if (!is_below(exactly, share, opened.most)) return false;
        const float bottom = lowest;
        set_lowest(negative_infinity());
        total.least = total.most = census(key_end(), stage.scale).mass;
        set_lowest(bottom);
    }
    return is_below(census(key - 1, stage.scale).mass, share, total.least);
}
