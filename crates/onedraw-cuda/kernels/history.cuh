// A sequence moves on: the drawn token enters its text and its counts.
#pragma once

#include "record.cuh"

// By one thread; nobody else reads the sequence meanwhile. `sequence` may be a copy that is nearer; only what changes is written, to the one on the device.
__device__ void append(const Sequence& sequence, Sequence* on_device, uint32_t token) {
    const uint32_t position = sequence.position, index = sequence.prompt + position;
    if (sequence.counts != nullptr) {
        // Nobody waits for what is only added.
        atomicAdd(&sequence.counts[token].y, 1);
        atomicOr(&sequence.touched[token / 32], 1u << token % 32);
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
