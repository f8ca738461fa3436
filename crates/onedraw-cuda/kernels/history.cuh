// A sequence moves on: the drawn token enters its text and its counts.
#pragma once

#include "record.cuh"

// Whether an edit may change a token already.
enum Touched { IS_TOUCHED, IS_NEW, NOBODY_KNOWS };

// By one thread; nobody else reads the sequence meanwhile. `sequence` may be a copy that is nearer; only what changes is written, to the one on the device.
__device__ void append(const Sequence& sequence, Sequence* on_device, uint32_t token, Touched touched = NOBODY_KNOWS) {
    const uint32_t position = sequence.position, index = sequence.prompt + position;
    if (sequence.counts != nullptr) {
        // Nobody waits for what is only added.
        atomicAdd(&sequence.counts[token].y, 1);
        const uint32_t bit = 1u << token % 32;
        bool is_new = touched == IS_NEW;
        if (is_new) atomicOr(&sequence.touched[token / 32], bit);
        else if (touched == NOBODY_KNOWS) is_new = !(atomicOr(&sequence.touched[token / 32], bit) & bit);
        if (is_new) {
            if (sequence.listed < TABULATED) sequence.list[sequence.listed] = token;
            on_device->listed = sequence.listed + 1;
        }
        const uint32_t window = sequence.window;
        if (window > 0 && index >= window) {
            // The ring may be no longer than the window: read before it is written.
            const uint32_t leaves = sequence.history[(index - window) % sequence.ring];
            atomicSub(index - window < sequence.prompt ? &sequence.counts[leaves].x : &sequence.counts[leaves].y, 1);
        }
    }
    if (sequence.ring > 0) sequence.history[index % sequence.ring] = token;
    on_device->position = position + 1;
}
