// What a step reads and writes for each row, as src/record.rs lays it out.
#pragma once

#include "number.cuh"

// The truncations of a chain, in their order. Each keeps a prefix of the order of tokens.
enum StageKind : uint32_t { MIN_P = 1, TOP_K = 2, TOP_P = 3 };

struct Stage {
    uint32_t kind;
    // Of TOP_K: k.
    uint32_t k;
    // Of MIN_P: T * ln(min_p) with the temperature in force.
    double threshold;
    // Of TOP_P: max(1, round(p * 2^53)).
    uint64_t share;
    // Of TOP_P: log2(e) / T with the temperature in force, rounded once.
    float scale;
    uint32_t reserved;
};

constexpr uint32_t STAGES = 6;

struct Row {
    uint64_t seed;
    uint32_t position, sequence, round;
    // Whether the first token of what is left is taken.
    uint32_t is_greedy;
    // 1 / T, rounded once: the temperature of the race.
    double inverse;
    // The scale that the sums of blocks are taken at: that of the first TOP_P stage; 0: none.
    float sum_scale;
    uint32_t stages;
    Stage stage[STAGES];
    // 32 tokens a word, lowest bit first; null: every token may be drawn.
    const uint32_t* mask;
};

enum Status : uint32_t { DRAWN = 0, NAN_LOGIT = 1, INFINITE_LOGIT = 2, NOTHING_LEFT = 3 };

struct Result {
    uint32_t token;
    uint32_t status;
};

// What the first pass says of a block of 64 tokens.
struct Peak {
    // The largest logit; -inf if nothing is alive.
    float highest;
    // -ln of the block's smallest exponential, in f32: what its largest logit may gain by noise. The last six bits are the lane that has the exponential.
    float luck;
};

constexpr uint32_t LANE_BITS = 63;
