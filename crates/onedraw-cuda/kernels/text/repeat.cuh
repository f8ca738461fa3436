// What a text repeats, for DRY and for n-grams that must not come twice: a kernel before the first pass, or before the
// questions about a part of a row, one thread block for each text (crates/onedraw/src/stages/edit/: agreement.rs, dry.rs,
// no_repeat_ngram.rs).
//
// The naive loop:
//
//     limit = the tokens after the breaker that begins last; all of them if there is none
//     for each token of the text but the first:
//         agreed = how many tokens before it agree with the end of the text, going back
//         DRY: if min(agreed, limit) >= allowed, and the token is no breaker: longest[token] = max(longest[token], min(agreed, limit))
//         n-grams: if agreed >= n - 1: the token is masked
//
// What this code does differently:
//
// 1. Every thread takes other tokens of the text, and compares no farther than anybody asks.
// 2. `longest` has a word for each token of the vocabulary, which begins with the number of the step: words of earlier steps
//    count as nothing, so nothing has to be cleared. The number is in the row's first word, and is counted on here.
// 3. Only tokens that a repetition goes on with are entered into the sequence's list of touched tokens, and stay there: a
//    text has many more.
//
// Why this is exact: all of it is integers, and a maximum does not depend on who is first.
#pragma once

#include "../edit/edit.cuh"
#include "history.cuh"

// Whether a breaker is a place's beginning; `longest` becomes the length of the longest that is.
__device__ __forceinline__ bool begins_breaker(const Sequence& sequence, const Place& place, uint32_t at, uint32_t end, uint32_t& longest) {
    const uint32_t *begins = sequence.breakers, *tokens = begins + sequence.breaker_count + 1;
    longest = 0;
#pragma unroll 1
    for (uint32_t i = 0; i < sequence.breaker_count; i++) {
        const uint32_t first = begins[i], length = begins[i + 1] - first;
        if (length <= longest || at + length > end) continue;
        uint32_t same = 0;
#pragma unroll 1
        while (same < length && tokens[first + same] == place.text(at + same)) same++;
        if (same == length) longest = length;
    }
    return longest > 0;
}

// Whether a token alone is a breaker.
__device__ __forceinline__ bool is_breaker(const Sequence& sequence, uint32_t token) {
    const uint32_t *begins = sequence.breakers, *tokens = begins + sequence.breaker_count + 1;
#pragma unroll 1
    for (uint32_t i = 0; i < sequence.breaker_count; i++) {
        if (begins[i + 1] - begins[i] == 1 && tokens[begins[i]] == token) return true;
    }
    return false;
}

// Notes what a sequence's text repeats, with the `depth` tokens of a path after it: called by all threads.
__device__ __forceinline__ void note_repeats(Sequence* on_device, const uint32_t* path, uint32_t depth, uint32_t* repeats, uint32_t vocabulary) {
    __shared__ Sequence sequence;
    __shared__ uint32_t stamp;
    // Where the last breaker begins, plus 1, and where it ends.
    __shared__ uint32_t last_breaker, breaker_end;
    if (threadIdx.x < sizeof(Sequence) / 8) reinterpret_cast<uint64_t*>(&sequence)[threadIdx.x] = reinterpret_cast<const uint64_t*>(on_device)[threadIdx.x];
    constexpr uint32_t SHIFT = REPEAT_LENGTH_BITS + 1;
    if (threadIdx.x == 0) {
        stamp = repeats[0] + 1;
        last_breaker = breaker_end = 0;
    }
    __syncthreads();
    // The numbers are used up: begin again.
    if (stamp >> (32 - SHIFT)) {
#pragma unroll 1
        for (uint32_t token = threadIdx.x; token < vocabulary; token += REPEAT_THREADS) repeats[1 + token] = 0;
        __syncthreads();
        if (threadIdx.x == 0) stamp = 1;
        __syncthreads();
    }
    if (threadIdx.x == 0) repeats[0] = stamp;
    const Place place = {&sequence, nullptr, path, depth, nullptr};
    const uint32_t end = sequence.length + depth, window = sequence.dry_window, own = stamp << SHIFT;
    const uint32_t start = window > 0 && end > window ? end - window : 0;
    const bool has_dry = sequence.dry_multiplier > 0.0;
    // The breaker that begins last, searched from the end, as many places at a time as there are threads.
#pragma unroll 1
    for (uint32_t back = 0; has_dry && sequence.breaker_count > 0 && back < end - start; back += REPEAT_THREADS) {
        const uint32_t i = back + threadIdx.x;
        uint32_t longest = 0;
        if (i < end - start && begins_breaker(sequence, place, end - 1 - i, end, longest)) atomicMax(&last_breaker, end - i);
        __syncthreads();
        if (last_breaker == 0) continue;
        if (last_breaker == end - i) breaker_end = last_breaker - 1 + longest;
        break;
    }
    __syncthreads();
    const uint32_t limit = end - (last_breaker > 0 ? breaker_end : start), allowed = sequence.dry_allowed, ngram = sequence.ngram;
    const bool is_dry = has_dry && end - start > allowed && limit >= allowed;
    const uint32_t farthest = max(is_dry ? limit : 0u, ngram > 0 ? ngram - 1 : 0u);
    const auto agreed_at = [&](uint32_t at, uint32_t from, uint32_t most) {
        uint32_t same = 0;
#pragma unroll 1
        while (same < most && same < at - from && place.text(at - 1 - same) == place.text(end - 1 - same)) same++;
        return same;
    };
    // A token that is noted is one that an edit may change, from now on.
    const auto note = [&](uint32_t token, uint32_t word) {
        if (atomicMax(&repeats[1 + token], word) < own) touch(*on_device, token);
    };
    // Ids of an engine's text that are no tokens of the vocabulary are not drawn, so nothing is noted of them.
#pragma unroll 1
    for (uint32_t at = 1 + threadIdx.x; at < end; at += REPEAT_THREADS) {
        const uint32_t token = place.text(at);
        if (token >= vocabulary) continue;
        const uint32_t length = agreed_at(at, 0, farthest);
        if (is_dry && at > start) {
            const uint32_t here = min(min(length, at - start), limit);
            if (here >= allowed && !is_breaker(sequence, token)) note(token, own | (here + 1) << 1);
        }
        if (ngram > 0 && length >= ngram - 1) note(token, own);
    }
    __syncthreads();
    if (ngram == 0) return;
    // Every such token has its word by now.
#pragma unroll 1
    for (uint32_t at = threadIdx.x; at < end; at += REPEAT_THREADS) {
        const uint32_t token = place.text(at);
        if (token >= vocabulary || (at == 0 && ngram > 1)) continue;
        if (at == 0) note(token, own);
        if (at == 0 || agreed_at(at, 0, ngram - 1) >= ngram - 1) atomicOr(&repeats[1 + token], 1u);
    }
}

// The rows of a step.
__device__ __forceinline__ void find_repeats(const Step& step) {
    const Task task = step.tasks[blockIdx.x];
    let_the_next_begin();
    wait_for_the_one_before();
    if (task.repeats != nullptr) note_repeats(step.sequences + task.slot, task.path, task.depth, task.repeats, step.vocabulary);
}

// A sequence that does not lie with others, and where to note what its text repeats.
struct Repeating {
    Sequence* sequence;
    uint32_t* repeats;
};

// The argument of the kernel `repeat_each`: a sequence for each thread block, none of which comes twice.
struct RepeatStep {
    const Repeating* list;
    uint32_t vocabulary;
    uint32_t reserved;
};
