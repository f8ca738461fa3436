// What a rank says at once about its part of each row, before it knows anything about the other ranks: the
// question `Open` (crates/onedraw/src/logits/slice.rs), answered by one thread block per row with the bytes
// that the CPU sends (crates/onedraw/src/engine/exchange.rs). A step of any number of rows is one launch.
// This file has the row as it lies in shared memory and how it is read; message.cuh the way to the message.
//
// The naive loop, for one row:
//
//     for each token of the part: x = the logit as masks and edits leave it
//     top, bad = the first token of the order, the lowest id of a NaN or +inf
//     end = the last place that min-p would keep of this part alone, or the last of all
//     best = the first 50 tokens of the order
//     finishers = the 8 tokens up to `end` with the largest scores
//     for each token after the best ones, up to `end`: sums[step of its logit] += its weight
//     for each of 256 points: the number of first steps whose sums do not exceed the point's target
//
// What this code does differently:
//
// 1. The first pass keeps the largest logit of every block of 64 tokens (its "peak") in shared memory. Later
//    passes read only blocks whose peaks reach what they look for.
// 2. Every thread takes the largest peak of its own blocks. The n-th largest of these is a logit that at
//    least n tokens reach, so the first n tokens are among those that reach it: these are listed and ranked.
// 3. A list that does not fit is not kept: then the first tokens are found one after the other, each by a pass over
//    all tokens.
// 4. finishers.cuh says how the race is run, curve.cuh how the sums and the points are made, and why these are exact.
//
// Why this is exact:
//
// - A peak is the largest logit of its block, so a block that is skipped has no token which is looked for (1).
// - The n largest of some numbers are at least as large as the n-th largest of any n of them (2). Keys are a total
//   order, so ranks do not depend on the order of the list.
#pragma once

#include "../draw/limits.cuh"
#include "../edit/edit.cuh"

// One row of a step: what is asked about the part that this rank has of it.
struct OpenTask {
    // The part's logits, and the sequence whose edits apply to them; its tables are those of the whole
    // vocabulary.
    const void* logits;
    const Sequence* sequence;
    // A grammar's mask of the whole vocabulary; null: none.
    const uint32_t* mask;
    // DRY and n-grams: what the text repeats (text/repeat.cuh). Null: nobody asks.
    const uint32_t* repeats;
    // Where the message goes: OPEN_SLOT bytes.
    uint32_t* slot;
    // How far below the part's largest logit a token may be to race and to be weighed; -inf: any.
    double reach;
    // The share of the mass, of 2^53, around which half of the points lie; 0: nowhere.
    uint64_t focus;
    // 1 / T of the race; 0: there is none.
    double inverse;
    // log2(e) / T of the weights; 0: nothing is weighed.
    float scale;
    // How many of the first tokens are listed.
    uint32_t best;
    // The first id of the part, and its number of tokens.
    uint32_t start, length;
    // Positions after the sequence's next.
    uint32_t ahead;
    uint32_t reserved;
    // What the message begins with: the two numbers of the slot, then the header of the reply. OPEN_HEAD bytes;
    // the rest fills the struct up.
    uint8_t head[64];
};

// The argument of the kernels `open_*`: a task for each thread block.
struct OpenStep {
    const OpenTask* tasks;
};

constexpr uint32_t OPEN_WARPS = OPEN_THREADS / 32;
// Half a warp takes a block, four tokens per lane.
constexpr uint32_t OPEN_HALVES = 2 * OPEN_WARPS;
// Keys that are listed at once. They lie where the sums of the steps come later.
constexpr uint32_t OPEN_LIST = OPEN_STEPS / 2;
static_assert(OPEN_BEST <= OPEN_THREADS, "one thread for each");

// A row, in shared memory. Its functions are free functions: those that read it here, each idea in a file of its own.
template <typename T>
struct Opening {
    // For functions of an opening: the type of the logits.
    typedef T Logit;

    OpenTask task;
    Sequence sequence;
    Place place;
    Adjustment adjustment;
    const T* logits;
    // Whether four consecutive logits, the first id a multiple of four, can be read at once; whether the part
    // has neither masks nor edits.
    bool is_aligned, is_bare;
    // The first block of the vocabulary that the part has tokens of, and how many there are.
    uint32_t first_block, blocks;
    // The lowest bad logit: twice its id, plus 1 if it is NaN. NO_TOKEN: none.
    uint32_t bad;
    // Whether a mask or an edit changed a logit.
    uint32_t is_changed;
    float x_max;
    Key top, end;
    // Keys or blocks that are listed.
    uint32_t count;
    // Tokens of `best` and of `finishers`, the earliest first.
    uint32_t best_count, finisher_count;
    Key best[OPEN_BEST];
    Key finishers[OPEN_FINISHERS];
    // The mass of the tokens of `best`, and of those after them.
    unsigned long long listed;
    uint64_t rest;
    uint16_t points[OPEN_POINTS];
    // One number of each thread, and of each warp; what one thread found for all.
    alignas(16) float numbers[OPEN_THREADS];
    uint64_t of_warps[OPEN_WARPS];
    uint32_t tokens_of_warps[OPEN_WARPS];
    float found;
    uint64_t found_key;
    uint32_t found_token;
    // The sums of the steps. Before them: a list of keys, and scores of the listed tokens.
    union {
        unsigned long long sums[OPEN_STEPS];
        struct {
            Key keys[OPEN_LIST];
            double scores[OPEN_LIST];
        };
    };
    uint8_t message[OPEN_SLOT];

    // The largest logit of each block; the bound of each block in the race, and then the list of blocks that
    // are opened.
    __device__ __forceinline__ float* peaks() const { return memory; }
    __device__ __forceinline__ float* bounds() const { return memory + blocks; }

    __device__ __forceinline__ Noise noise() const { return {sequence.seed, sequence.position + task.ahead, sequence.sequence, sequence.round}; }

    // The id of a lane's first token in a block of the part.
    __device__ __forceinline__ uint32_t token_in(uint32_t block) const { return (first_block + block) * BLOCK + 4 * (threadIdx.x & 15); }

    // Whether the part has a token.
    __device__ __forceinline__ bool holds(uint32_t token) const { return token - task.start < task.length; }

    // ---- over all threads ----

    // The n-th largest of the threads' numbers, which are not NaN; equal ones count each.
    __device__ __noinline__ float nth_largest(float own, uint32_t n) {
        __syncthreads();
        numbers[threadIdx.x] = own;
        __syncthreads();
        uint32_t larger = 0;
#pragma unroll 4
        for (uint32_t i = 0; i < OPEN_THREADS; i += 4) {
            const float4 others = *reinterpret_cast<const float4*>(numbers + i);
            const auto count = [&](float other, uint32_t i) { larger += (other > own) | ((other == own) & (i < threadIdx.x)); };
            count(others.x, i);
            count(others.y, i + 1);
            count(others.z, i + 2);
            count(others.w, i + 3);
        }
        if (larger + 1 == n) found = own;
        __syncthreads();
        return found;
    }

    // The largest number of all threads with the token that comes with it, of equal numbers the lowest token;
    // left in `found_key` and `found_token`.
    __device__ __noinline__ void largest_of_all(uint64_t number, uint32_t token) {
        const auto take = [&](uint64_t other, uint32_t other_token) {
            if (other > number || (other == number && other_token < token)) number = other, token = other_token;
        };
#pragma unroll 1
        for (int offset = 16; offset > 0; offset >>= 1) {
            const uint64_t other = __shfl_xor_sync(ALL_LANES, number, offset);
            const uint32_t other_token = __shfl_xor_sync(ALL_LANES, token, offset);
            take(other, other_token);
        }
        __syncthreads();
        if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = number, tokens_of_warps[threadIdx.x / 32] = token;
        __syncthreads();
        if (threadIdx.x == 0) {
#pragma unroll 1
            for (uint32_t i = 0; i < OPEN_WARPS; i++) take(of_warps[i], tokens_of_warps[i]);
            found_key = number;
            found_token = token;
        }
        __syncthreads();
    }

    // Empties the list.
    __device__ __forceinline__ void begin_list() {
        __syncthreads();
        if (threadIdx.x == 0) count = 0;
        __syncthreads();
    }

    // Adds a key to the list, if it fits.
    __device__ __forceinline__ void add(Key key) {
        const uint32_t place = atomicAdd(&count, 1);
        if (place < OPEN_LIST) keys[place] = key;
    }
};

// ---- reading ----

// A lane's four logits of a block; -inf where the part has none.
template <typename Opening>
__device__ __forceinline__ float4 raw_four(const Opening& opening, uint32_t block) {
    const uint32_t token = opening.token_in(block);
    if (opening.is_aligned && opening.holds(token) && opening.holds(token + 3)) return four(opening.logits + (token - opening.task.start));
    const auto at = [&](uint32_t token) { return opening.holds(token) ? one(opening.logits + (token - opening.task.start)) : negative_infinity(); };
    return make_float4(at(token), at(token + 1), at(token + 2), at(token + 3));
}

// The same as masks and edits leave them. What is -inf stays so: also where another part has the token.
template <typename Opening>
__device__ __forceinline__ float4 edited_part(const Opening& opening, float4 x, uint32_t block) {
    const uint32_t token = opening.token_in(block);
    if (!opening.is_bare && (opening.holds(token) || opening.holds(token + 1) || opening.holds(token + 2) || opening.holds(token + 3))) opening.adjustment.apply(x, token, opening.place, opening.adjustment.word(token));
    return x;
}

// Calls `each(block, raw, x)` for the blocks for which `is_wanted(block)` holds, with the four logits of
// each lane; AT_ONCE blocks of each half warp are read at once. Both halves of a warp call it together:
// with a block past the end, or one that is not wanted, for which all logits are -inf.
template <uint32_t AT_ONCE, typename Opening, typename IsWanted, typename Each>
__device__ __forceinline__ void over_blocks(const Opening& opening, IsWanted is_wanted, Each each) {
    const uint32_t half = threadIdx.x / 16;
#pragma unroll 1
    for (uint32_t first = 0; first < opening.blocks; first += OPEN_HALVES * AT_ONCE) {
        float4 raw[AT_ONCE];
#pragma unroll
        for (uint32_t i = 0; i < AT_ONCE; i++) {
            const uint32_t block = first + i * OPEN_HALVES + half;
            const float low = negative_infinity();
            raw[i] = block < opening.blocks && is_wanted(block) ? raw_four(opening, block) : make_float4(low, low, low, low);
        }
#pragma unroll
        for (uint32_t i = 0; i < AT_ONCE; i++) {
            const uint32_t block = first + i * OPEN_HALVES + half;
            each(block, raw[i], edited_part(opening, raw[i], block < opening.blocks ? block : 0));
        }
    }
}

// The same for tokens of at least `reach` that are alive: `each(x, token)`, in no particular order.
template <uint32_t AT_ONCE, typename Opening, typename Each>
__device__ __forceinline__ void over_reaching(const Opening& opening, float reach, Each each) {
    const float* const highest = opening.peaks();
    over_blocks<AT_ONCE>(opening, [=](uint32_t block) { return highest[block] >= reach && highest[block] > negative_infinity(); },
                         [&](uint32_t block, float4, float4 x) {
                             const uint32_t token = opening.token_in(block);
                             const auto one_of = [&](float x, uint32_t token) {
                                 if (x >= reach && x > negative_infinity()) each(x, token);
                             };
                             one_of(x.x, token);
                             one_of(x.y, token + 1);
                             one_of(x.z, token + 2);
                             one_of(x.w, token + 3);
                         });
}

// The largest peak of the thread's own blocks.
template <typename Opening>
__device__ __forceinline__ float own_peak(const Opening& opening) {
    float own = negative_infinity();
#pragma unroll 1
    for (uint32_t block = threadIdx.x; block < opening.blocks; block += OPEN_THREADS) own = fmaxf(own, opening.peaks()[block]);
    return own;
}

// The key of a token of the part.
template <typename Opening>
__device__ __noinline__ Key key_at(const Opening& opening, uint32_t token) {
    const float raw = one(opening.logits + (token - opening.task.start));
    return key_of(opening.is_bare ? raw : Adjustment::adjusted(opening.place, opening.adjustment.touched, token, raw), token);
}
