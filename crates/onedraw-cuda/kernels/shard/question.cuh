// What one part of a row answers to the questions of a draw over a split vocabulary
// (crates/onedraw/src/logits/query.rs). The draw itself runs on the host.
//
// The naive loop:
//
//     for each token of the part: x = the logit as masks and edits leave it; add it to the answer
//
// This code is that loop, with the tokens spread over all threads: every token is looked at once, whatever is
// asked. It differs in three things:
//
// 1. Every thread block writes its own answer, and the host merges them.
// 2. A question that the CPU answers from the peaks of blocks, by an interval or a sample, is answered
//    exactly here (WEIGH, SKETCH): reading a part takes a few microseconds, less than asking again.
// 3. A question that changes the row asks for the first token of what it leaves, in the same pass. The new row
//    lies on a desk (change.cuh), which later questions read instead.
//
// Why this is exact: answers are sums of integers, maxima, and lists whose order the asker does not rely on,
// so neither the threads nor the thread blocks matter (1). An exact mass is an interval of one number, and a
// full count is a sample of everything; the draw may ask fewer questions after it, and the token is the same,
// because it does not depend on how wide intervals are (2). A token is read and written by one thread, and the
// next question begins when all have ended (3).
#pragma once

#include "change.cuh"

// The argument of the kernels `ask_*`, which the host calls `AskArguments`.
struct Ask {
    // The part's logits, and the sequence whose edits apply to them; its tables are those of the whole
    // vocabulary.
    const void* logits;
    const Sequence* sequence;
    // A grammar's mask of the whole vocabulary; null: none. `late_mask`: where the stage stands after an
    // operation.
    const uint32_t *mask, *late_mask;
    // DRY and n-grams: what the text repeats (text/repeat.cuh). Null: nobody asks.
    const uint32_t* repeats;
    // Memory for the part's logits after a change; null: nothing has changed or changes them.
    float* desk;
    // ANSWER_WORDS words for each thread block.
    uint64_t* answers;
    // `bin_count` sums, 0 before: thread blocks add to them.
    unsigned long long* bins;
    // Keys that were found, 0 before; the first `key_capacity` of them are written to `keys`.
    uint32_t* key_count;
    Key* keys;
    // The lowest key of the bins, or the lowest distance.
    Key first;
    Key last;
    // 1 / T, or what distances are multiplied by.
    double factor;
    double mean;
    float x_max, scale;
    float inner_highest, inner_lowest, outer_highest;
    QuestionKind kind;
    // The first id of the part, and its number of tokens.
    uint32_t start, length;
    uint32_t key_capacity;
    uint32_t shift, bin_count;
    // Whether masks and edits are ignored; whether the part is read from the desk, where they are made already.
    uint32_t is_raw, is_on_desk;
    // Positions after the sequence's next, for the noise.
    uint32_t ahead;
    // What the row becomes before the question is answered.
    Change change;
};

// A score as an integer in the same order; +0 and -0 are one.
__device__ __forceinline__ uint64_t order_of_score(double score) {
    const uint64_t bits = __double_as_longlong(score + 0.0);
    return bits >> 63 ? ~bits : bits | 1ull << 63;
}

// -ln of a token's exponential: what noise adds to its score. (Named before "gain" was the word for it; the
// name is a symbol of the kept image.)
__device__ __noinline__ double luck_of(Noise noise, uint32_t token) {
    const uint32_t block = token / BLOCK;
    uint32_t bits[3];
#pragma unroll
    for (uint32_t purpose = 0; purpose < 3; purpose++) {
        const uint32_t place = purpose == TOKEN ? token : block;
        bits[purpose] = word(words(noise, Purpose(purpose), place / 4), place % 4);
    }
    const double minimum = exponential(bits[BLOCK_MINIMUM]) / 64.0;
    return -ln(bits[BLOCK_LANE] >> 26 == token % BLOCK ? minimum : minimum + exponential(bits[TOKEN]));
}

// The answer of one thread, of a warp, of a thread block.
struct PartialAnswer {
    uint64_t a, b, c, d;

    __device__ __forceinline__ void merge(QuestionKind kind, const PartialAnswer& other) {
        if (kind == RACE) {
            const bool is_better = other.a > a || (other.a == a && other.b > b);
            a = is_better ? other.a : a;
            b = is_better ? other.b : b;
        } else if (kind == SUMMIT || kind == EMPTIED || kind == LAST || kind == LOGIT) {
            a = other.a > a ? other.a : a;
            b = other.b > b ? other.b : b;
            c = other.c > c ? other.c : c;
        } else {
            a += other.a;
            b += other.b;
            c += other.c;
            d += other.d;
        }
    }
};

template <typename T>
__device__ __forceinline__ void answer(const Ask& ask) {
    __shared__ unsigned long long bins[MAX_BINS];
    __shared__ PartialAnswer parts[ASK_THREADS / 32];
    const Sequence& sequence = *ask.sequence;
    __shared__ Place place;
    if (threadIdx.x == 0) place = {ask.sequence, ask.mask, nullptr, 0, ask.repeats};
    __syncthreads();
    const uint32_t* const touched = sequence.touched;
    const bool is_bare = ask.is_raw || ask.is_on_desk || (ask.mask == nullptr && sequence.allowed == nullptr && touched == nullptr);
    const Noise noise = {sequence.seed, sequence.position + ask.ahead, sequence.sequence, sequence.round};
    const Softmax softmax = {ask.x_max, ask.scale};
    const QuestionKind kind = ask.kind;
    const Key last = ask.last;
    const double top = double(ask.x_max);
    for (uint32_t i = threadIdx.x; i < ask.bin_count; i += ASK_THREADS) bins[i] = 0;
    __syncthreads();
    PartialAnswer own = {0, 0, 0, 0};
    const auto list = [&](Key key) {
        const uint32_t place = atomicAdd(ask.key_count, 1);
        if (place < ask.key_capacity) ask.keys[place] = key;
    };
    const auto count = [&](uint64_t bin, uint64_t amount) {
        if (bin < ask.bin_count && amount > 0) atomicAdd(&bins[bin], amount);
    };
#pragma unroll 1
    for (uint32_t i = blockIdx.x * ASK_THREADS + threadIdx.x; i < ask.length; i += gridDim.x * ASK_THREADS) {
        const uint32_t token = ask.start + i;
        const float raw = ask.is_on_desk ? ask.desk[i] : one(static_cast<const T*>(ask.logits) + i);
        if (kind == EMPTIED) {
            const uint64_t edits = place.edits_survived(token, raw);
            own.a = edits > own.a ? edits : own.a;
            continue;
        }
        if (kind == SUMMIT && !(raw < positive_infinity())) {
            // NaN and +inf are errors even where the token is masked.
            const uint64_t bad = ~(uint64_t(token) << 1 | (raw != raw));
            own.b = bad > own.b ? bad : own.b;
        }
        float x = is_bare ? raw : Adjustment::adjusted(place, touched, token, raw);
        if (ask.change.kind != UNCHANGED) {
            const Changed after = changed(ask.change, place, ask.late_mask, i, token, x);
            ask.desk[i] = x = after.x;
            own.c = after.survived > own.c ? after.survived : own.c;
        }
        const Key key = key_of(x, token);
        if (kind == LOGIT) own.a = 1ull << 32 | __float_as_uint(x);
        if (!(x > negative_infinity())) continue;
        switch (kind) {
            case SUMMIT: own.a = ~key > own.a ? ~key : own.a; break;
            case RACE:
                if (key < last) {
                    const double score = (double(x) - top) * ask.factor + luck_of(noise, token);
                    const PartialAnswer other = {order_of_score(score), uint64_t(~token) << 32 | __float_as_uint(x), 0, 0};
                    own.merge(RACE, other);
                }
                break;
            case COUNT_BEFORE: own.a += key < last; break;
            case WEIGH: {
                const uint64_t mass = weight(softmax, x);
                own.a += key < last ? mass : 0;
                own.b += mass;
                break;
            }
            case TOTAL: own.a += key <= last ? weight(softmax, x) : 0; break;
            case SPREAD:
                if (key <= last) {
                    own.a += weight(softmax, x);
                    own.b += surprise(softmax, x);
                    own.c++;
                }
                break;
            case LAST: own.a = key <= last && key > own.a ? key : own.a; break;
            case DEVIATIONS:
                if (key <= last) {
                    // 2^40 at most.
                    const uint64_t distance = __double2ull_rz((top - double(x)) * ask.factor);
                    const uint64_t square_high = __umul64hi(distance, distance), square_low = distance * distance;
                    own.a++;
                    own.b += distance;
                    own.c += square_high << 24 | square_low >> 40;
                    own.d += square_low & ((1ull << 40) - 1);
                }
                break;
            case DISTANCES:
                if (key <= last) {
                    const uint32_t distance = __float_as_uint(float(fabs((double(x) - top) * ask.factor - ask.mean)));
                    count((distance - uint32_t(ask.first)) >> ask.shift, weight(softmax, x));
                }
                break;
            case SKETCH: {
                const float depth = (softmax.x_max - x) * softmax.scale + 0.5f;
                if (depth < float(MAX_BINS)) count(uint32_t(fmaxf(depth, 0.0f)), 1);
                break;
            }
            case BAND:
                if (key <= last && x <= ask.outer_highest) {
                    if (x >= ask.inner_lowest && x <= ask.inner_highest) own.a += weight(softmax, x);
                    else list(key);
                }
                break;
            case KEPT:
                if (key <= last) list(key);
                break;
            case COUNTS:
            case MASSES:
                if (key >= ask.first) count((key - ask.first) >> ask.shift, kind == COUNTS ? 1 : weight(softmax, x));
                break;
            default: break;
        }
    }
#pragma unroll 1
    for (int offset = 16; offset > 0; offset >>= 1) {
        const PartialAnswer other = {__shfl_xor_sync(ALL_LANES, own.a, offset), __shfl_xor_sync(ALL_LANES, own.b, offset),
                                     __shfl_xor_sync(ALL_LANES, own.c, offset), __shfl_xor_sync(ALL_LANES, own.d, offset)};
        own.merge(kind, other);
    }
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = own;
    __syncthreads();
    if (threadIdx.x == 0) {
#pragma unroll 1
        for (uint32_t i = 1; i < ASK_THREADS / 32; i++) own.merge(kind, parts[i]);
        uint64_t* const to = ask.answers + ANSWER_WORDS * blockIdx.x;
        to[0] = own.a;
        to[1] = own.b;
        to[2] = own.c;
        to[3] = own.d;
    }
    for (uint32_t i = threadIdx.x; i < ask.bin_count; i += ASK_THREADS) {
        if (bins[i] > 0) atomicAdd(&ask.bins[i], bins[i]);
    }
}
