// Sequences are changed as the host says: text is taken back, a text gets more room, a new one is counted.
//
// The naive way, as crates/onedraw/src/state/ has it:
//
//     while the text is too long:
//         take its last token out of the counts; count the token that is in the window again
//         remove it
//     mu = what it was after so many tokens; round and bans = what the host says
//     more room: copy the text into a longer array
//
// What this code does differently:
//
// 1. All threads of a thread block take tokens out and count them, in any order.
// 2. A token that is no longer in the text stays in the list of touched tokens: its count is 0, so edits leave
//    its logit as it is (history.cuh).
// 3. The host decides what a sequence is to be, as far as it knows it, and names only the last of several
//    changes: to go back to b after going back to a is to go back to the shorter one.
//
// Counts are sums of integers, so their order does not matter (1).
#pragma once

#include "history.cuh"

// What a sequence is to be.
struct Revision {
    Sequence* sequence;
    // As the sequence has them. What lies at another address is copied there first; a new bitmap is cleared.
    uint32_t* history;
    double* mus;
    const uint32_t* bans;
    uint32_t *touched, *edit_list;
    uint64_t seed;
    uint32_t room, mu_room, round, ban_count, ban_place;
    // Whether its text is counted for the first time.
    uint32_t is_new;
    // Whether only the first `length` tokens of its text stay.
    uint32_t is_shorter, length;
    // Whether the next draw is that of `position`.
    uint32_t is_moved, position;
};

// The argument of the kernel `revise_each`.
struct ReviseStep {
    const Revision* list;
    uint32_t count;
    uint32_t vocabulary;
};

// Token number i of the text enters or leaves the counts; one that enters is touched.
__device__ __forceinline__ void count_in(Sequence& sequence, const uint32_t* text, uint32_t i) {
    const uint32_t token = text[i];
    if (token == NO_TOKEN) return;
    atomicAdd(i < sequence.prompt ? &sequence.counts[token].x : &sequence.counts[token].y, 1);
    touch(sequence, token);
}

__device__ __forceinline__ void count_out(Sequence& sequence, const uint32_t* text, uint32_t i) {
    const uint32_t token = text[i];
    if (token != NO_TOKEN) atomicSub(i < sequence.prompt ? &sequence.counts[token].x : &sequence.counts[token].y, 1);
}

// One sequence for each thread block.
__device__ __forceinline__ void revise_sequence(const ReviseStep& step) {
    const Revision& change = step.list[blockIdx.x];
    Sequence& sequence = *change.sequence;
    const uint32_t first = threadIdx.x, before = sequence.length, prompt = sequence.prompt, window = sequence.window;
    const uint32_t length = change.is_shorter ? min(change.length, before) : before;
    const uint32_t* const text = sequence.history;
    const double* const mus = sequence.mus;
    if (change.touched != sequence.touched) {
        // As long as the host makes it: whole vectors of blocks.
        constexpr uint32_t TOKENS = BLOCK * BLOCKS_PER_VECTOR;
        const uint32_t words = (step.vocabulary + TOKENS - 1) / TOKENS * (TOKENS / 32);
        for (uint32_t word = first; word < words; word += REVISE_THREADS) change.touched[word] = 0;
    }
    if (change.is_new && sequence.counts != nullptr) {
        for (uint32_t token = first; token < step.vocabulary; token += REVISE_THREADS) sequence.counts[token] = make_uint2(0, 0);
    }
    __syncthreads();
    if (first == 0 && change.touched != sequence.touched) {
        sequence.touched = change.touched;
        sequence.edit_list = change.edit_list;
        sequence.edit_list_length = 0;
    }
    __syncthreads();
    if (sequence.counts != nullptr) {
        const uint32_t counted = window > 0 && before > window ? before - window : 0;
        for (uint32_t i = counted + first; i < before && change.is_new; i += REVISE_THREADS) count_in(sequence, text, i);
        for (uint32_t i = length + first; i < before; i += REVISE_THREADS) {
            count_out(sequence, text, i);
            if (window > 0 && i >= window) count_in(sequence, text, i - window);
        }
    }
    for (uint32_t i = first; i < change.ban_count; i += REVISE_THREADS) touch(sequence, change.bans[i]);
    for (uint32_t i = first; i < length && text != nullptr && change.history != text; i += REVISE_THREADS) change.history[i] = text[i];
    for (uint32_t i = first; i <= length - prompt && mus != nullptr && change.mus != mus; i += REVISE_THREADS) change.mus[i] = mus[i];
    __syncthreads();
    if (first != 0) return;
    sequence.history = change.history;
    sequence.room = change.room;
    if (change.is_shorter && mus != nullptr) sequence.mu = mus[length - prompt];
    sequence.mus = change.mus;
    sequence.mu_room = change.mu_room;
    sequence.bans = change.bans;
    sequence.ban_count = change.ban_count;
    sequence.ban_place = change.ban_place;
    sequence.seed = change.seed;
    sequence.round = change.round;
    sequence.length = length;
    if (change.is_moved) sequence.position = change.position;
}
