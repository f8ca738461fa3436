// What XTC has removed (stages/xtc.cuh): the tokens before a key, but for the protected ones.
#pragma once

#include "../record/record.cuh"

// Whether XTC never removes a token: looked up by halving the sorted ids.
__device__ __forceinline__ bool is_protected(const Sequence& sequence, uint32_t token) {
    uint32_t low = 0, high = sequence.protected_count;
#pragma unroll 1
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (sequence.protected_ids[middle] < token) low = middle + 1;
        else high = middle;
    }
    return low < sequence.protected_count && sequence.protected_ids[low] == token;
}

__device__ __forceinline__ bool is_removed(const Sequence& sequence, Key head, float x, uint32_t token) { return key_of(x, token) < head && !is_protected(sequence, token); }
