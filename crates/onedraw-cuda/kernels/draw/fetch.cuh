// Copies from device memory into shared memory that nobody waits for yet: all copies are under way before the
// first is waited for (`__pipeline_wait_prior`).
#pragma once

#include "draw.cuh"

// Copies `count` numbers.
__device__ __forceinline__ void fetch(float* to, const float* from, uint32_t count) {
#pragma unroll 1
    for (uint32_t quad = threadIdx.x; 4 * quad < count; quad += DRAW_THREADS) __pipeline_memcpy_async(reinterpret_cast<float4*>(to) + quad, reinterpret_cast<const float4*>(from) + quad, 16);
}

// Copies the largest logits of all blocks; -inf where there is no block.
template <typename Draw>
__device__ __forceinline__ void fetch_peaks(const Draw& draw, float* to, const float* peaks, uint32_t pitch) {
    fetch(to, peaks, pitch);
    const float low = negative_infinity();
#pragma unroll 1
    for (uint32_t quad = pitch / 4 + threadIdx.x; quad < draw.padded_blocks / 4; quad += DRAW_THREADS) reinterpret_cast<float4*>(to)[quad] = make_float4(low, low, low, low);
}
