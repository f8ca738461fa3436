// The first tokens of the order, listed.
//
// The naive loop:
//
//     sort all tokens by (logit descending, id ascending)
//     take the first k
//
// What this code does differently:
//
// 1. A distance below the best logit is found within which the first k tokens lie, from the peaks of the
//    blocks alone: their depths are counted in a histogram of 256 (`depth_of`, `depth_with`).
// 2. Only blocks whose peak is nearer than that are read, and their tokens that are nearer are listed
//    (`gather`).
// 3. The list is sorted where somebody needs that, by counting up to 512 keys and by a bitonic network up to
//    LIST_CAPACITY (`sort`). (few.cuh has lists that are not.)
//
// Why this is exact:
//
// - If k blocks have their peaks at a depth of d or nearer, at least k tokens do, so the k-th token is not
//   farther (1). The depth and the distance both come from the rounded difference x_max - x; rounding is
//   monotone, so a larger logit never has a larger difference, and what is listed is a prefix of the order:
//   with a token, every token of a larger or equal logit is listed (2).
// - Keys are distinct, so sorting has one result (3).
#pragma once

#include "../number/warp.cuh"
#include "blocks.cuh"

// The depth of a logit.
template <typename Draw>
__device__ __forceinline__ uint32_t depth(const Draw& draw, float x) {
    const uint32_t bits = __float_as_uint(draw.x_max - x) >> 19;
    return bits <= DEPTH_LOWEST ? 0 : min(bits - DEPTH_LOWEST, 255u);
}

// The distance at which a depth ends.
__device__ __forceinline__ float depth_ends(uint32_t depth) { return depth >= 255 ? positive_infinity() : __uint_as_float((DEPTH_LOWEST + depth + 1) << 19); }

// Sets the histogram of depths to 0.
template <typename Draw>
__device__ __forceinline__ void clear_depths(Draw& draw) {
    __syncthreads();
    if (threadIdx.x < DEPTHS) draw.depth_histogram[threadIdx.x] = 0;
    __syncthreads();
}

// The depth down to which the histogram adds up to `enough`; the last depth if there is less.
template <typename Draw>
__device__ __noinline__ uint32_t depth_with(Draw& draw, uint32_t enough) {
    // Every warp finds it by itself, eight depths per lane: sums of eight, then a prefix sum over the lanes.
    const uint32_t lane = threadIdx.x & 31;
    const uint4 near = reinterpret_cast<const uint4*>(draw.depth_histogram)[2 * lane], far = reinterpret_cast<const uint4*>(draw.depth_histogram)[2 * lane + 1];
    const uint32_t own[8] = {near.x, near.y, near.z, near.w, far.x, far.y, far.z, far.w};
    uint32_t sum = 0;
#pragma unroll
    for (uint32_t i = 0; i < 8; i++) sum += own[i];
    uint32_t upto = sum;
#pragma unroll
    for (int offset = 1; offset < 32; offset <<= 1) {
        const uint32_t other = __shfl_up_sync(ALL_LANES, upto, offset);
        if (lane >= offset) upto += other;
    }
    uint32_t so_far = upto - sum, depth = 8 * lane;
#pragma unroll
    for (uint32_t i = 0; i < 8; i++) {
        so_far += own[i];
        depth += so_far < enough;
    }
    const uint32_t holders = __ballot_sync(ALL_LANES, upto >= enough);
    return holders == 0 ? DEPTHS - 1 : __shfl_sync(ALL_LANES, depth, __ffs(holders) - 1);
}

// A depth that at least k blocks reach, and few more.
template <typename Draw>
__device__ __noinline__ uint32_t depth_of(Draw& draw, uint32_t k) {
    // Where k is small beside the number of blocks, most of the first k blocks are in vectors of their own,
    // and counting only the best block of each vector of four gives a depth that is hardly lower. It is never
    // too near: fewer blocks are counted.
    const bool is_few = k <= draw.pitch / 16;
    // Counting by ballots instead of atomics was 0.9 us slower (bench/results/2026-11-16-cuda.md).
    const auto add = [&](float x) {
        if (x > negative_infinity()) atomicAdd(&draw.depth_histogram[depth(draw, x)], 1);
    };
#pragma unroll 1
    for (uint32_t quad = threadIdx.x; quad < draw.padded_blocks / 4; quad += DRAW_THREADS) {
        const float4 tallest = reinterpret_cast<const float4*>(draw.highest())[quad];
        add(is_few ? largest(tallest) : tallest.x);
        if (is_few) continue;
        add(tallest.y);
        add(tallest.z);
        add(tallest.w);
    }
    __syncthreads();
    return depth_with(draw, k);
}

// Lists the tokens that are nearer to the best logit than `distance`, unsorted; returns how many there
// are.
template <typename Draw>
__device__ __noinline__ uint32_t gather(Draw& draw, float distance) {
    constexpr uint32_t AT_ONCE = 2;
    const float top = draw.x_max;
    // x_max - x may overflow to +inf, and is still less than an infinite distance.
    const auto is_near = [=](float x) { return (x > negative_infinity()) & (fminf(top - x, LARGEST_FLOAT) < distance); };
    const uint32_t reached = collect_where(draw, draw.highest(), is_near);
    over_fours<AT_ONCE>(draw, reached, [&](float4 (&x)[AT_ONCE], uint32_t start) {
        uint32_t hits = 0;
#pragma unroll
        for (uint32_t i = 0; i < AT_ONCE; i++) {
            if (Draw::rows != BARE && !draw.is_bare) apply_edits_listed(draw, x[i], start + i * HALVES, reached);
            hits |= (uint32_t(is_near(x[i].x)) | uint32_t(is_near(x[i].y)) << 1 | uint32_t(is_near(x[i].z)) << 2 | uint32_t(is_near(x[i].w)) << 3) << 4 * i;
        }
        if (hits == 0) return;
        // Few lanes have any token, so each takes its places by itself.
        uint32_t next = atomicAdd(&draw.others, __popc(hits));
#pragma unroll
        for (uint32_t i = 0; i < AT_ONCE; i++) {
            const float logits_here[4] = {x[i].x, x[i].y, x[i].z, x[i].w};
#pragma unroll
            for (uint32_t j = 0; j < 4; j++) {
                if (!(hits >> (4 * i + j) & 1)) continue;
                if (next < LIST_CAPACITY) draw.keys[next] = key_of(logits_here[j], draw.work()[start + i * HALVES] * BLOCK + 4 * (threadIdx.x & 15) + j);
                next++;
            }
        }
    });
    __syncthreads();
    return draw.others;
}

// Sorts the list.
template <typename Draw>
__device__ __noinline__ void sort(Draw& draw, uint32_t listed) {
    if (listed <= DRAW_THREADS / 4) {
        // Four threads for each key count how many keys come before it.
        const uint32_t i = threadIdx.x / 4;
        const Key own = i < listed ? draw.keys[i] : 0;
        uint32_t place = 0;
#pragma unroll 4
        for (uint32_t j = threadIdx.x % 4; j < listed; j += 4) place += draw.keys[j] < own;
        place += __shfl_xor_sync(ALL_LANES, place, 1);
        place += __shfl_xor_sync(ALL_LANES, place, 2);
        __syncthreads();
        if (i < listed && threadIdx.x % 4 == 0) draw.keys[place] = own;
        __syncthreads();
        return;
    }
    if (listed <= DRAW_THREADS) {
        const Key own = threadIdx.x < listed ? draw.keys[threadIdx.x] : 0;
        uint32_t place = 0;
        if (threadIdx.x < listed) {
#pragma unroll 4
            for (uint32_t i = 0; i < listed; i++) place += draw.keys[i] < own;
        }
        __syncthreads();
        if (threadIdx.x < listed) draw.keys[place] = own;
        __syncthreads();
        return;
    }
    // A bitonic network over the whole list, its unused places filled with the largest key.
    for (uint32_t i = listed + threadIdx.x; i < LIST_CAPACITY; i += DRAW_THREADS) draw.keys[i] = ~0ull;
    __syncthreads();
#pragma unroll 1
    for (uint32_t size = 2; size <= LIST_CAPACITY; size <<= 1) {
#pragma unroll 1
        for (uint32_t stride = size >> 1; stride > 0; stride >>= 1) {
#pragma unroll 1
            for (uint32_t i = threadIdx.x; i < LIST_CAPACITY / 2; i += DRAW_THREADS) {
                const uint32_t low = 2 * i - (i & (stride - 1)), high = low + stride;
                const Key a = draw.keys[low], b = draw.keys[high];
                if ((a > b) == ((low & size) == 0)) {
                    draw.keys[low] = b;
                    draw.keys[high] = a;
                }
            }
            __syncthreads();
        }
    }
}

// Lists at least the first k tokens of the order, or all there are, sorted; returns how many, or 0 if
// they do not fit.
template <typename Draw>
__device__ __noinline__ uint32_t list(Draw& draw, uint32_t k) {
    clear_depths(draw);
    const uint32_t listed = gather(draw, depth_ends(depth_of(draw, k)));
    if (listed > LIST_CAPACITY) return 0;
    sort(draw, listed);
    return listed;
}
