// Sequences that move on together, each in memory of its own: the sequences of a rank follow those of the host
// (src/shard/follow.rs). One thread appends one token to one sequence; no sequence comes twice in a launch.
#pragma once

#include "history.cuh"

// A token, and the sequence that it is appended to.
struct Appending {
    Sequence* sequence;
    uint32_t token;
    uint32_t reserved;
};

// The argument of the kernel `append_each`.
struct AppendStep {
    const Appending* list;
    uint32_t count;
    uint32_t reserved;
};
