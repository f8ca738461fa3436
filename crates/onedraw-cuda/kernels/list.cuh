// The first tokens of the order, listed and sorted, and what truncations keep of them. Part of draw.cuh.
#pragma once

#include "draw.cuh"

template <typename T>
__device__ __noinline__ uint32_t Draw<T>::list(uint32_t k) {
    __syncthreads();
    if (threadIdx.x < 256) bins[threadIdx.x] = 0;
    if (threadIdx.x == 0) deepest = 255;
    __syncthreads();
#pragma unroll 1
    for (uint32_t block = threadIdx.x; block < blocks; block += DRAW_THREADS) {
        if (highest[block] > negative_infinity()) atomicAdd(&bins[depth(highest[block])], 1);
    }
    __syncthreads();
    // The first depth down to which k blocks reach: as many tokens do.
    {
        const uint32_t lane = threadIdx.x & 31;
        uint32_t upto = bins[threadIdx.x];
#pragma unroll
        for (int offset = 1; offset < 32; offset <<= 1) {
            const uint32_t other = __shfl_up_sync(ALL, upto, offset);
            if (lane >= offset) upto += other;
        }
        // The warps before: 32 bins each.
        uint32_t before = 0;
#pragma unroll 1
        for (uint32_t bin = lane; bin < (threadIdx.x & ~31u); bin += 32) before += bins[bin];
        before = __reduce_add_sync(ALL, before);
        if (before + upto >= k) atomicMin(&deepest, threadIdx.x);
    }
    __syncthreads();
    const uint32_t bottom = deepest;
    const uint32_t reached = collect_where([&](float top) { return depth(top) <= bottom; });
    __syncthreads();
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    over(reached, [&](float x, uint32_t token) {
        if (x > negative_infinity() && depth(x) <= bottom) {
            const uint32_t place = atomicAdd(&count, 1);
            if (place < LISTED) keys[place] = key_of(x, token);
        }
    });
    __syncthreads();
    const uint32_t listed = count;
    if (listed > LISTED) return 0;
    sort(listed);
    return listed;
}

template <typename T>
__device__ __noinline__ void Draw<T>::sort(uint32_t listed) {
    if (listed <= DRAW_THREADS) {
        // Each counts who is before it.
        const Key own = threadIdx.x < listed ? keys[threadIdx.x] : 0;
        uint32_t place = 0;
        if (threadIdx.x < listed) {
#pragma unroll 4
            for (uint32_t i = 0; i < listed; i++) place += keys[i] < own;
        }
        __syncthreads();
        if (threadIdx.x < listed) keys[place] = own;
        __syncthreads();
        return;
    }
    for (uint32_t i = listed + threadIdx.x; i < LISTED; i += DRAW_THREADS) keys[i] = ~0ull;
    __syncthreads();
#pragma unroll 1
    for (uint32_t size = 2; size <= LISTED; size <<= 1) {
#pragma unroll 1
        for (uint32_t stride = size >> 1; stride > 0; stride >>= 1) {
#pragma unroll 1
            for (uint32_t i = threadIdx.x; i < LISTED / 2; i += DRAW_THREADS) {
                const uint32_t low = 2 * i - (i & (stride - 1)), high = low + stride;
                const Key a = keys[low], b = keys[high];
                if ((a > b) == ((low & size) == 0)) {
                    keys[low] = b;
                    keys[high] = a;
                }
            }
            __syncthreads();
        }
    }
}

template <typename T>
__device__ __noinline__ uint32_t Draw<T>::passing(uint32_t listed) {
    uint32_t kept = 0;
    for (uint32_t i = threadIdx.x; i < listed; i += DRAW_THREADS) kept += passes(logit_of(keys[i]));
    return uint32_t(sum(kept, 0).count);
}

template <typename T>
__device__ __noinline__ uint32_t Draw<T>::top_p(const Stage& stage, uint32_t listed, uint64_t total) {
    const Softmax softmax = {x_max, stage.scale};
    // Each thread has tokens next to each other, so that a scan over threads is one over tokens.
    const uint32_t each = listed <= DRAW_THREADS ? 1 : LISTED / DRAW_THREADS, first = threadIdx.x * each, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    uint64_t own = 0;
#pragma unroll 1
    for (uint32_t i = first; i < first + each && i < listed; i++) own += weight(softmax, logit_of(keys[i]));
    uint64_t upto = own;
#pragma unroll
    for (int offset = 1; offset < 32; offset <<= 1) {
        const uint64_t other = __shfl_up_sync(ALL, upto, offset);
        if (lane >= offset) upto += other;
    }
    __syncthreads();
    if (lane == 31) parts[warp].mass = upto;
    __syncthreads();
    uint64_t before = upto - own, all = 0;
#pragma unroll 1
    for (uint32_t i = 0; i < WARPS; i++) {
        before += i < warp ? parts[i].mass : 0;
        all += parts[i].mass;
    }
    if (total == 0) total = all;
    uint32_t kept = 0;
#pragma unroll 1
    for (uint32_t i = first; i < first + each && i < listed; i++) {
        kept += is_below(before, stage.share, total);
        before += weight(softmax, logit_of(keys[i]));
    }
    return uint32_t(sum(kept, 0).count);
}

template <typename T>
__device__ __noinline__ Finalist Draw<T>::race_listed(uint32_t listed) {
    __syncthreads();
    float high = negative_infinity();
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < listed; i += DRAW_THREADS) {
        const uint32_t token = uint32_t(keys[i]);
        const float luck = lucks[token / BLOCK], minimum = __expf(-luck);
        const uint32_t bits = word(words(noise(), TOKEN, token / 4), token % 4);
        const float time = (__float_as_uint(luck) & LANE_BITS) == token % BLOCK ? minimum : minimum + rough_exponential(bits);
        const float score = (logit_of(keys[i]) - x_max) * inverse - __logf(time);
        listed_scores[i] = score;
        high = fmaxf(high, score);
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) high = fmaxf(high, __shfl_xor_sync(ALL, high, offset));
    if ((threadIdx.x & 31) == 0) tops[threadIdx.x >> 5] = high;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    high = tops[threadIdx.x & (WARPS - 1)];
#pragma unroll
    for (int offset = WARPS / 2; offset > 0; offset >>= 1) high = fmaxf(high, __shfl_xor_sync(ALL, high, offset));
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < listed; i += DRAW_THREADS) {
        if (listed_scores[i] + 2 * MARGIN >= high) {
            const uint32_t place = atomicAdd(&count, 1);
            if (place < CANDIDATES) candidates[place] = keys[i];
        }
    }
    __syncthreads();
    const uint32_t found = count;
    if (found == 1) return {0.0, uint32_t(candidates[0]), logit_of(candidates[0])};
    Finalist own = nobody();
    if (found <= CANDIDATES) {
        if (threadIdx.x < found) own = scored(candidates[threadIdx.x]);
    } else {
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < listed; i += DRAW_THREADS) {
            const Finalist other = scored(keys[i]);
            if (other.score > own.score || (other.score == own.score && other.token < own.token)) own = other;
        }
    }
    return best(own);
}
