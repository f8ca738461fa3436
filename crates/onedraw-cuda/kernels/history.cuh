// A sequence moves on: the drawn token enters its text, its counts and the list of tokens that edits may
// change.
//
// The naive way, as crates/onedraw/src/state/history.rs has it: append the token to the text; count it; if
// the window is full, take the token that leaves it out of the counts.
//
// What this code does differently:
//
// 1. The text is kept only as far as somebody asks for it: the last `ring` tokens, token number i at place i
//    % ring. Ids of an engine's text that are no tokens of the vocabulary are NO_TOKEN there, and never counted.
// 2. The counts of all tokens are one array, and a token that comes for the first time is entered into the
//    bitmap and the list of touched tokens. A token that leaves the window stays there: its count is 0, so
//    penalties leave its logit as it is.
// 3. Counts are changed by atomics whose result nobody reads, so the thread does not wait for device memory.
//
// All of it is integer work on one sequence, by one thread, so there is nothing to be inexact.
#pragma once

#include "record.cuh"

// What the caller knows of the drawn token: whether its bit in `touched` is set already.
enum Touched { IS_TOUCHED, IS_NEW, NOBODY_KNOWS };

// Appends a token. Called by one thread; nobody else reads the sequence meanwhile. `sequence` may be a copy
// in shared memory: only what changes is written, to the one on the device.
__device__ void append(const Sequence& sequence, Sequence* on_device, uint32_t token, Touched touched = NOBODY_KNOWS) {
    const uint32_t position = sequence.position, index = sequence.prompt + position;
    if (sequence.counts != nullptr) {
        // An atomic without a result is not waited for.
        atomicAdd(&sequence.counts[token].y, 1);
        const uint32_t bit = 1u << token % 32;
        bool is_new = touched == IS_NEW;
        if (is_new) atomicOr(&sequence.touched[token / 32], bit);
        else if (touched == NOBODY_KNOWS) is_new = !(atomicOr(&sequence.touched[token / 32], bit) & bit);
        if (is_new) {
            if (sequence.edit_list_length < EDIT_LIST_CAPACITY) sequence.edit_list[sequence.edit_list_length] = token;
            on_device->edit_list_length = sequence.edit_list_length + 1;
        }
        const uint32_t window = sequence.window;
        if (window > 0 && index >= window) {
            // The ring may be as short as the window, and then the new token takes this one's place: read it
            // first.
            const uint32_t leaves = sequence.history[(index - window) % sequence.ring];
            if (leaves != NO_TOKEN) atomicSub(index - window < sequence.prompt ? &sequence.counts[leaves].x : &sequence.counts[leaves].y, 1);
        }
    }
    if (sequence.ring > 0) sequence.history[index % sequence.ring] = token;
    on_device->position = position + 1;
}
