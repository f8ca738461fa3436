// A sequence moves on: the drawn token enters its text, its counts and the list of tokens that edits may
// change.
//
// The naive way, as crates/onedraw/src/state/history.rs has it: append the token to the text; count it; if
// the window is full, take the token that leaves it out of the counts.
//
// What this code does differently:
//
// 1. The text is kept only where an edit reads it, or where it may be undone (revise.cuh). The host gives it room
//    before it is needed; a text without room stays as it is, so that nobody reads past its end. Ids of an
//    engine's text that are no tokens of the vocabulary are NO_TOKEN there, and never counted.
// 2. The counts of all tokens are one array, and a token that comes for the first time is entered into the
//    bitmap and the list of touched tokens. A token that leaves the window stays there: its count is 0, so
//    penalties leave its logit as it is.
// 3. Counts are changed by atomics whose result nobody reads, so the thread does not wait for device memory.
//
// All of it is integer work on one sequence, by one thread, so there is nothing to be inexact.
#pragma once

#include "../record/record.cuh"

// What the caller knows of the drawn token: whether its bit in `touched` is set already.
enum Touched { IS_TOUCHED, IS_NEW, NOBODY_KNOWS };

// Enters a token into the bitmap and the list of touched tokens. Many threads may do so at once.
__device__ __forceinline__ void touch(Sequence& sequence, uint32_t token) {
    const uint32_t bit = 1u << token % 32;
    if (atomicOr(&sequence.touched[token / 32], bit) & bit) return;
    const uint32_t place = atomicAdd(&sequence.edit_list_length, 1);
    if (place < EDIT_LIST_CAPACITY) sequence.edit_list[place] = token;
}

// Appends a token. Called by one thread; nobody else reads the sequence meanwhile. `sequence` may be a copy
// in shared memory: only what changes is written, to the one on the device.
__device__ void append(const Sequence& sequence, Sequence* on_device, uint32_t token, Touched touched = NOBODY_KNOWS) {
    const uint32_t index = sequence.length, written = index - sequence.prompt + 1;
    if ((sequence.room > 0 && index >= sequence.room) || (sequence.mu_room > 0 && written >= sequence.mu_room)) return;
    if (sequence.counts != nullptr) {
        const uint32_t bit = 1u << token % 32;
        bool is_new = touched == IS_NEW;
        if (is_new) atomicOr(&sequence.touched[token / 32], bit);
        else if (touched == NOBODY_KNOWS) is_new = !(atomicOr(&sequence.touched[token / 32], bit) & bit);
        if (is_new) {
            if (sequence.edit_list_length < EDIT_LIST_CAPACITY) sequence.edit_list[sequence.edit_list_length] = token;
            on_device->edit_list_length = sequence.edit_list_length + 1;
        }
        // An atomic without a result is not waited for.
        atomicAdd(&sequence.counts[token].y, 1);
        const uint32_t window = sequence.window;
        if (window > 0 && index >= window) {
            const uint32_t leaves = sequence.history[index - window];
            if (leaves != NO_TOKEN) atomicSub(index - window < sequence.prompt ? &sequence.counts[leaves].x : &sequence.counts[leaves].y, 1);
        }
    }
    if (sequence.room > 0) sequence.history[index] = token;
    // Whoever learns from the token writes again.
    if (sequence.mu_room > 0) sequence.mus[written] = sequence.mu;
    on_device->position = sequence.position + 1;
    on_device->length = index + 1;
}

// What mirostat learned from the token that was appended last, in the sequence on the device.
__device__ __forceinline__ void set_mu(Sequence& sequence, double mu) {
    const uint32_t written = sequence.length - sequence.prompt;
    sequence.mu = mu;
    if (written < sequence.mu_room) sequence.mus[written] = mu;
}
