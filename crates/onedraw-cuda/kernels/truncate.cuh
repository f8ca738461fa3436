// The winner among what MIN_P, TOP_K and TOP_P keep, each once at most and in any order: drawn first, asked after. Part of draw.cuh.
#pragma once

#include "draw.cuh"

template <typename T, Rows ROWS>
__device__ __noinline__ uint32_t Draw<T, ROWS>::truncated() {
    const float infinity = __uint_as_float(0x7f800000u);
    if (row.stages == 0) return race(key_end() + 1).token;
    if (row.minimum < STAGES) {
        if (threadIdx.x == 0) {
            bottom = lowest_of(row.stage[row.minimum].number);
            if (row.minimum < row.nucleus) bottom_before = bottom;
        }
        __syncthreads();
    }
    // Before the memory of the references is used.
    if (row.nucleus == 0) {
        const Bounds mass = total_mass(nucleus()->scale);
        if (threadIdx.x == 0) total = mass;
        __syncthreads();
    }
    // How far below the best all are that matter, where these may be few.
    const bool is_short = row.k_before <= FEW / 2;
    float reach = infinity;
    if (is_short) reach = depth_ends(depth_of(row.k_before));
    else if (!is_unbounded()) reach = reach_of_nucleus();
    else if (nucleus() != nullptr && bottom_before > -infinity) reach = (x_max - bottom_before) * (1.0f + 0x1p-22f) + 0x1p-126f;
    if (is_short || reach < infinity) {
        const uint32_t listed = gather(reach), winner = listed <= FEW ? race_few(listed) : ALL;
        if (winner != ALL) return winner;
    }
    const uint32_t winner = row.k <= LISTED / 2 ? race_first() : ALL;
    return winner != ALL ? winner : race_all(reach);
}

template <typename T, Rows ROWS>
__device__ __noinline__ uint32_t Draw<T, ROWS>::race_first() {
    uint32_t listed = list(row.k);
    if (listed == 0) return ALL;
    set_lowest(bottom_before);
    listed = passing(min(listed, row.k));
    if (nucleus() != nullptr) {
        uint64_t seen = 0;
        if (row.k_before != row.k) seen = census(key_end(), nucleus()->scale).mass;
        listed = top_p(*nucleus(), listed, seen);
    }
    set_lowest(bottom);
    return race_listed(passing(listed)).token;
}

template <typename T, Rows ROWS>
__device__ __noinline__ uint32_t Draw<T, ROWS>::race_all(float reach) {
    Key before_this = (row.k != ALL ? select(0.0f, row.k - 1, key_end()) : key_end()) + 1;
    float low = bottom;
    if (nucleus() != nullptr && is_unbounded()) {
        set_lowest(bottom_before);
        const uint64_t mass = census(row.k_before == row.k ? before_this - 1 : key_end(), nucleus()->scale).mass;
        set_total({mass, mass});
    } else if (nucleus() != nullptr) {
        // A little lower than the nucleus reaches, for what the differences lose: few winners are rejected then.
        low = fmaxf(low, x_max - reach * (1.0f + 0x1p-20f) - fabsf(x_max) * 0x1p-22f);
    }
    set_lowest(low);
#pragma unroll 1
    while (true) {
        const Finalist winner = race(before_this);
        if (nucleus() == nullptr) return winner.token;
        __syncthreads();
        if (threadIdx.x == 0) found_key = key_of(winner.logit, winner.token);
        __syncthreads();
        // What MIN_P removes is behind whatever it keeps, so the mass before a winner is the same with it and without.
        if (is_in_nucleus(found_key)) return uint32_t(found_key);
        before_this = found_key;
    }
}
