// Whether a token is in the nucleus of TOP_P: asked after the draw, first of what the first pass knows of blocks, then of the tokens. Part of draw.cuh.
#pragma once

#include "draw.cuh"

// By depth what the best tokens of blocks weigh, for `reach_of_nucleus`: in units of 2^-17 of the best token's weight, rounded down. No more than 2^14 blocks fill 32 bits.
// Light ones are hardly ever needed, and would all wait for a few words.
constexpr uint32_t HEAVY = 64;

template <typename T, Rows ROWS>
__device__ __forceinline__ void Draw<T, ROWS>::add_best(uint32_t quad, float scale, bool heavy) {
    const float4 tallest = reinterpret_cast<const float4*>(highest())[quad];
    const float top = x_max;
    const auto add = [&](float x) {
        const uint32_t amount = uint32_t(power_of((x - top) * scale) * (0x1p17f * (1.0f - SUM_ERROR)));
        if (amount > 0 && (amount >= HEAVY) == heavy) atomicAdd(&depths[depth(x)], amount);
    };
    add(tallest.x);
    add(tallest.y);
    add(tallest.z);
    add(tallest.w);
}

template <typename T, Rows ROWS>
__device__ __noinline__ Bounds Draw<T, ROWS>::total_mass(float scale) {
    // A power of two.
    const uint32_t shift = __ffs(group) - 1, quads = room / 4, blocks = pitch;
    const float top = x_max;
    const bool has_edits = ROWS != BARE && adjustment.touched != nullptr;
    float* const known = reinterpret_cast<float*>(work());
    if (has_edits) {
        // The memory has been used since.
        __syncthreads();
        fetch(known, references, (pitch + group - 1) / group);
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncthreads();
    }
    float mass = 0.0f;
    bool is_lost = false;
#pragma unroll 1
    for (uint32_t quad = threadIdx.x; quad < quads; quad += DRAW_THREADS) {
        float4 sum = {};
        const uint32_t block = 4 * quad;
        add_best(quad, scale, true);
        if (block < blocks) {
            sum = reinterpret_cast<const float4*>(masses())[quad];
            // A group is two blocks, or a multiple of four.
            const float first = (known[block >> shift] - top) * scale, second = (known[(block + 2) >> shift] - top) * scale;
            // Where an edit took the best, the rest of its group may have been too small beside it.
            is_lost |= fmaxf(first, second) > 16.0f;
            const float one = power_of(first), other = power_of(second);
            sum = make_float4(one * sum.x, one * sum.y, other * sum.z, other * sum.w);
        }
        reinterpret_cast<float4*>(masses())[quad] = sum;
        mass += (sum.x + sum.y) + (sum.z + sum.w);
    }
    if (has_edits) {
        if (__syncthreads_or(is_lost)) return {};
        repair_masses(scale);
        mass = 0.0f;
#pragma unroll 1
        for (uint32_t quad = threadIdx.x; quad < quads; quad += DRAW_THREADS) {
            const float4 sum = reinterpret_cast<const float4*>(masses())[quad];
            mass += (sum.x + sum.y) + (sum.z + sum.w);
        }
    }
    return around(amount(units(mass)));
}

template <typename T, Rows ROWS>
__device__ __noinline__ float Draw<T, ROWS>::reach_of_nucleus() {
    const float share = float(nucleus()->share) * 0x1p-53f, wanted = share * float(total.most) * (1.0f + SUM_ERROR) * 0x1p-26f + 1.0f;
    if (!(wanted < 0x1p31f)) return __uint_as_float(0x7f800000u);
    const uint32_t enough = uint32_t(wanted) + 1, reached = depth_with(enough);
    if (reached < DEPTHS - 1) return depth_ends(reached);
    __syncthreads();
#pragma unroll 1
    for (uint32_t quad = threadIdx.x; quad < room / 4; quad += DRAW_THREADS) add_best(quad, nucleus()->scale, false);
    __syncthreads();
    return depth_ends(depth_with(enough));
}

template <typename T, Rows ROWS>
__device__ __noinline__ Bounds Draw<T, ROWS>::mass_before(Key key, float scale) {
    // So much does not fit the sums below: many tokens are nearly as good as the best.
    if (total.most >> 57 != 0) return {0, total.most};
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
    const uint2 sums = tallied(make_uint2(least, most));
    // A weight is rounded down.
    const uint64_t floors = vocabulary, low = uint64_t(sums.x) << 26;
    return {low > floors ? low - floors : 0, uint64_t(sums.y) << 26};
}

template <typename T, Rows ROWS>
__device__ __noinline__ Bounds Draw<T, ROWS>::mass_opened(Key key, float scale) {
    const float top = x_max;
    float mass = 0.0f;
    before_key(key, [&](float4 x, bool4 is_before) {
        const auto of = [=](float x, bool is_in) { return is_in ? power_of((x - top) * scale) : 0.0f; };
        mass += (of(x.x, is_before.x) + of(x.y, is_before.y)) + (of(x.z, is_before.z) + of(x.w, is_before.w));
    });
    return around(amount(units(mass)));
}

template <typename T, Rows ROWS>
__device__ __noinline__ Bounds Draw<T, ROWS>::total_opened(float scale) {
    const Softmax softmax = {x_max, scale};
    const float least = float(total.least) * (1.0f / float(UNIT)) * 0x1p-12f;
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
    const Bounds others = around(amount(units(rest)));
    return {exactly + others.least, exactly + others.most};
}

template <typename T, Rows ROWS>
__device__ __noinline__ bool Draw<T, ROWS>::is_in_nucleus(Key key) {
    if (total.least != total.most) {
        const Bounds rough = mass_before(key, nucleus()->scale);
        if (is_below(rough.most, nucleus()->share, total.least)) return true;
        if (!is_below(rough.least, nucleus()->share, total.most)) return false;
        const Bounds finer = mass_opened(key, nucleus()->scale);
        if (is_below(finer.most, nucleus()->share, total.least)) return true;
        if (!is_below(finer.least, nucleus()->share, total.most)) return false;
        set_total(total_opened(nucleus()->scale));
    }
    const uint64_t exactly = census(key - 1, nucleus()->scale).mass;
    if (is_below(exactly, nucleus()->share, total.least)) return true;
    if (!is_below(exactly, nucleus()->share, total.most)) return false;
    const float bottom = lowest;
    set_lowest(negative_infinity());
    const uint64_t mass = census(key_end(), nucleus()->scale).mass;
    set_lowest(bottom);
    set_total({mass, mass});
    return is_below(exactly, nucleus()->share, mass);
}
