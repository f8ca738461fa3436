// The winner among what MIN_P, TOP_K and TOP_P keep, each once at most and in any order: drawn first, asked after. Part of draw.cuh.
#pragma once

#include "draw.cuh"

template <typename T, bool BARE>
__device__ __noinline__ Truncation Draw<T, BARE>::truncation() const {
    const float low = negative_infinity();
    Truncation found = {nullptr, ALL, low, ALL, low, true};
#pragma unroll 1
    for (uint32_t i = 0; i < row.stages; i++) {
        const Stage& stage = row.stage[i];
        if (stage.kind == MIN_P) found.bottom = lowest_of(stage.number);
        else if (stage.kind == TOP_K) found.k = stage.k;
        else {
            found.nucleus = &stage;
            // Who stands before leaves it the mass that it sees.
            found.is_exact = i > 0;
        }
        if (found.nucleus == nullptr) {
            found.k_before = found.k;
            found.bottom_before = found.bottom;
        }
    }
    return found;
}

template <typename T, bool BARE>
__device__ __noinline__ uint32_t Draw<T, BARE>::truncated() {
    const float infinity = __uint_as_float(0x7f800000u);
    if (row.stages == 0) return race(key_end() + 1).token;
    if (threadIdx.x == 0) kept = truncation();
    __syncthreads();
    // Before the memory of the references is used.
    if (!kept.is_exact) {
        set_total(total_mass(kept.nucleus->scale));
        if (threadIdx.x == 0) kept.is_exact = total.most == 0;
        __syncthreads();
    }
    // How far below the best all are that matter, where these may be few.
    const bool is_short = kept.k_before <= FEW / 2;
    float reach = infinity;
    if (is_short) reach = depth_ends(depth_of(kept.k_before));
    else if (!kept.is_exact) reach = reach_of_nucleus();
    else if (kept.nucleus != nullptr && kept.bottom_before > -infinity) reach = (x_max - kept.bottom_before) * (1.0f + 0x1p-22f) + 0x1p-126f;
    if (is_short || reach < infinity) {
        const uint32_t listed = gather(reach), winner = listed <= FEW ? race_few(listed) : ALL;
        if (winner != ALL) return winner;
    }
    const uint32_t winner = kept.k <= LISTED / 2 ? race_first() : ALL;
    return winner != ALL ? winner : race_all(reach);
}

template <typename T, bool BARE>
__device__ __noinline__ uint32_t Draw<T, BARE>::race_first() {
    uint32_t listed = list(kept.k);
    if (listed == 0) return ALL;
    set_lowest(kept.bottom_before);
    listed = passing(min(listed, kept.k));
    if (kept.nucleus != nullptr) {
        uint64_t seen = 0;
        if (kept.k_before != kept.k) seen = census(key_end(), kept.nucleus->scale).mass;
        listed = top_p(*kept.nucleus, listed, seen);
    }
    set_lowest(kept.bottom);
    return race_listed(passing(listed)).token;
}

template <typename T, bool BARE>
__device__ __noinline__ uint32_t Draw<T, BARE>::race_all(float reach) {
    Key before_this = (kept.k != ALL ? select(0.0f, kept.k - 1, key_end()) : key_end()) + 1;
    float bottom = kept.bottom;
    if (kept.nucleus != nullptr && kept.is_exact) {
        set_lowest(kept.bottom_before);
        const uint64_t mass = census(kept.k_before == kept.k ? before_this - 1 : key_end(), kept.nucleus->scale).mass;
        set_total({mass, mass});
    } else if (kept.nucleus != nullptr) {
        // A little lower than the nucleus reaches, for what the differences lose: few winners are rejected then.
        bottom = fmaxf(bottom, x_max - reach * (1.0f + 0x1p-20f) - fabsf(x_max) * 0x1p-22f);
    }
    set_lowest(bottom);
#pragma unroll 1
    while (true) {
        const Finalist winner = race(before_this);
        if (kept.nucleus == nullptr) return winner.token;
        __syncthreads();
        if (threadIdx.x == 0) found_key = key_of(winner.logit, winner.token);
        __syncthreads();
        // What MIN_P removes is behind whatever it keeps, so the mass before a winner is the same with it and without.
        if (is_in_nucleus(found_key)) return uint32_t(found_key);
        before_this = found_key;
    }
}
