// What a rank says at once about its part of each row, before it knows anything about the other ranks: the
// question `Open` (crates/onedraw/src/logits/slice.rs), answered by one thread block per row with the bytes
// that the CPU sends (crates/onedraw/src/engine/exchange.rs). A step of any number of rows is one launch.
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
// 3. The race computes f32 scores. The blocks with the largest bounds are raced first, and the n-th largest
//    score, one of each thread, less its error, is a bar that at least n tokens clear. Then every block and
//    token that could clear it is looked at, and what is left is scored in f64 and ranked.
// 4. Lists that do not fit are not kept: then the first tokens, or finishers, are found one after the other,
//    each by a pass over all tokens.
// 5. The sums are added up by atomics, and the points are found by halving in the sums up to each step.
//
// Why this is exact:
//
// - A peak is the largest logit of its block, so a block that is skipped has no token which is looked for (1).
// - The n largest of some numbers are at least as large as the n-th largest of any n of them (2, 3). Keys and
//   f64 scores, with the lower id for equal ones, are total orders, so ranks do not depend on the order of
//   the list.
// - Write s for a token's f64 score and f for its f32 score: |s - f| <= slack(f) (see there). With the bar
//   b = f - slack(f) of the n-th largest f, n tokens have s >= b, so the n-th largest s is at least b. A token
//   whose f + slack(f) is below b has s < b, and a block whose bound is has no other tokens: neither has one of
//   the first n (3). What is compared with NaN is not skipped.
// - Weights are integers (5), and steps are computed by the operations of the CPU, in its order.
#pragma once

#include "limits.cuh"
#include "question.cuh"
#include "skyline.cuh"

// One row of a step: what is asked about the part that this rank has of it.
struct OpenTask {
    // The part's logits, and the sequence whose edits apply to them; its tables are those of the whole
    // vocabulary.
    const void* logits;
    const Sequence* sequence;
    // A grammar's mask of the whole vocabulary; null: none.
    const uint32_t* mask;
    // DRY and n-grams: what the text repeats (repeat.cuh). Null: nobody asks.
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
// Blocks with the largest bounds that are raced first, at least: on flat rows they hold most of the finishers.
constexpr uint32_t FIRST_RACED = 32;
// Bytes of the answer between the header and the keys, and where it begins in the slot.
constexpr uint32_t OPEN_ANSWER = OPEN_HEAD + 4, OPEN_KEYS = OPEN_ANSWER + 30;

static_assert(OPEN_KEYS + 8 * (OPEN_BEST + OPEN_FINISHERS) + 2 * OPEN_POINTS == OPEN_SLOT, "the longest message fills the slot");
static_assert(OPEN_SLOT % 4 == 0 && OPEN_POINTS <= OPEN_THREADS && OPEN_STEPS % OPEN_THREADS == 0, "all threads do as much");
static_assert(OPEN_FINISHERS <= FIRST_RACED && FIRST_RACED <= OPEN_THREADS && OPEN_BEST <= OPEN_THREADS, "one thread for each");
// Fewer blocks than finishers: all of their tokens fit the list.
static_assert(OPEN_FINISHERS * BLOCK <= OPEN_LIST, "few blocks overflow nothing");

// How far an f32 score or bound may be from its f64 twin. The noise is off by less than 2^-11, as limits.cuh
// says of MARGIN. (x - x_max) / T takes three roundings of numbers no larger than |f| + 28, because -ln E is
// at most 27.1 in size: less than 2^-22 of that.
__device__ __forceinline__ float slack(float score) { return MARGIN + fabsf(score) * 0x1p-20f; }

// `part` of `parts` equal parts of a mass, rounded down, without overflow.
__device__ __forceinline__ uint64_t share_of(uint64_t mass, uint64_t part, uint64_t parts) { return mass / parts * part + mass % parts * part / parts; }

// A row, in shared memory.
template <typename T>
struct Opening {
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

    // A lane's four logits of a block; -inf where the part has none.
    __device__ __forceinline__ float4 raw_four(uint32_t block) const {
        const uint32_t token = token_in(block);
        if (is_aligned && holds(token) && holds(token + 3)) return four(logits + (token - task.start));
        const auto at = [&](uint32_t token) { return holds(token) ? ::one(logits + (token - task.start)) : negative_infinity(); };
        return make_float4(at(token), at(token + 1), at(token + 2), at(token + 3));
    }

    // The same as masks and edits leave them. What is -inf stays so: also where another part has the token.
    __device__ __forceinline__ float4 edited_four(float4 x, uint32_t block) const {
        const uint32_t token = token_in(block);
        if (!is_bare && (holds(token) || holds(token + 1) || holds(token + 2) || holds(token + 3))) adjustment.apply(x, token, place, adjustment.word(token));
        return x;
    }

    // Calls `each(block, raw, x)` for the blocks for which `is_wanted(block)` holds, with the four logits of
    // each lane; AT_ONCE blocks of each half warp are read at once. Both halves of a warp call it together:
    // with a block past the end, or one that is not wanted, for which all logits are -inf.
    template <uint32_t AT_ONCE, typename IsWanted, typename Each>
    __device__ __forceinline__ void over(IsWanted is_wanted, Each each) const {
        const uint32_t half = threadIdx.x / 16;
#pragma unroll 1
        for (uint32_t first = 0; first < blocks; first += OPEN_HALVES * AT_ONCE) {
            float4 raw[AT_ONCE];
#pragma unroll
            for (uint32_t i = 0; i < AT_ONCE; i++) {
                const uint32_t block = first + i * OPEN_HALVES + half;
                const float low = negative_infinity();
                raw[i] = block < blocks && is_wanted(block) ? raw_four(block) : make_float4(low, low, low, low);
            }
#pragma unroll
            for (uint32_t i = 0; i < AT_ONCE; i++) {
                const uint32_t block = first + i * OPEN_HALVES + half;
                each(block, raw[i], edited_four(raw[i], block < blocks ? block : 0));
            }
        }
    }

    // The same for tokens of at least `reach` that are alive: `each(x, token)`, in no particular order.
    template <uint32_t AT_ONCE, typename Each>
    __device__ __forceinline__ void over_reaching(float reach, Each each) const {
        const float* const highest = peaks();
        over<AT_ONCE>([=](uint32_t block) { return highest[block] >= reach && highest[block] > negative_infinity(); },
                      [&](uint32_t block, float4, float4 x) {
                          const uint32_t token = token_in(block);
                          const auto one_of = [&](float x, uint32_t token) {
                              if (x >= reach && x > negative_infinity()) each(x, token);
                          };
                          one_of(x.x, token);
                          one_of(x.y, token + 1);
                          one_of(x.z, token + 2);
                          one_of(x.w, token + 3);
                      });
    }

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

    // ---- the parts of a message ----

    // Prepares the row: called by all threads.
    __device__ __forceinline__ void prepare(const OpenTask& from) {
        if (threadIdx.x < sizeof(OpenTask) / 8) reinterpret_cast<uint64_t*>(&task)[threadIdx.x] = reinterpret_cast<const uint64_t*>(&from)[threadIdx.x];
        if (threadIdx.x < sizeof(Sequence) / 8) reinterpret_cast<uint64_t*>(&sequence)[threadIdx.x] = __ldcg(reinterpret_cast<const uint64_t*>(from.sequence) + threadIdx.x);
        for (uint32_t i = threadIdx.x; i < OPEN_SLOT; i += OPEN_THREADS) message[i] = 0;
        for (uint32_t i = threadIdx.x; i < OPEN_POINTS; i += OPEN_THREADS) points[i] = 0;
        __syncthreads();
        if (threadIdx.x == 0) {
            logits = static_cast<const T*>(task.logits);
            place = {&sequence, task.mask, nullptr, 0, task.repeats};
            adjustment = {task.mask, sequence.allowed, sequence.touched};
            is_bare = task.mask == nullptr && sequence.allowed == nullptr && sequence.touched == nullptr;
            is_aligned = (reinterpret_cast<uint64_t>(logits) - uint64_t(task.start) * sizeof(T)) % (4 * sizeof(T)) == 0;
            first_block = task.start / BLOCK;
            blocks = task.length == 0 ? 0 : (task.start + task.length - 1) / BLOCK - first_block + 1;
            bad = NO_TOKEN;
            is_changed = best_count = finisher_count = 0;
            listed = rest = 0;
        }
        __syncthreads();
    }

    // The first pass: peaks, the lowest bad logit, and whether anything is changed.
    __device__ __forceinline__ void survey() {
        const uint32_t lane = threadIdx.x & 31;
        over<4>([](uint32_t) { return true; },
                [&](uint32_t block, float4 raw, float4 x) {
                    const uint32_t token = token_in(block);
                    const auto look = [&](float raw, float x, uint32_t token) {
                        if (!(raw < positive_infinity())) atomicMin(&bad, token << 1 | uint32_t(raw != raw));
                        if (raw != x) is_changed = 1;
                    };
                    look(raw.x, x.x, token);
                    look(raw.y, x.y, token + 1);
                    look(raw.z, x.z, token + 2);
                    look(raw.w, x.w, token + 3);
                    float top = largest(x);
#pragma unroll
                    for (int offset = 8; offset > 0; offset >>= 1) top = fmaxf(top, __shfl_xor_sync(ALL_LANES, top, offset));
                    if (lane % 16 == 0 && block < blocks) peaks()[block] = top;
                });
        __syncthreads();
    }

    // The largest peak of the thread's own blocks.
    __device__ __forceinline__ float own_peak() const {
        float own = negative_infinity();
#pragma unroll 1
        for (uint32_t block = threadIdx.x; block < blocks; block += OPEN_THREADS) own = fmaxf(own, peaks()[block]);
        return own;
    }

    // The first token of the order, and the last place within reach. Returns whether any token is alive.
    __device__ __forceinline__ bool find_top() {
        const float highest = nth_largest(own_peak(), 1);
        if (!(highest > negative_infinity())) return false;
        uint64_t own = 0;
        over_reaching<1>(highest, [&](float x, uint32_t token) { own = max(own, ~key_of(x, token)); });
        largest_of_all(own, 0);
        if (threadIdx.x == 0) {
            top = ~found_key;
            x_max = logit_of(top);
            end = task.reach > -__longlong_as_double(0x7ff0000000000000ll) ? last_of(lowest_within(double(x_max), task.reach)) : key_end();
        }
        __syncthreads();
        return true;
    }

    // The first tokens of the order.
    __device__ __forceinline__ void list_best() {
        const uint32_t wanted = task.best;
        const float reach = nth_largest(own_peak(), wanted);
        begin_list();
        over_reaching<1>(reach, [&](float x, uint32_t token) { add(key_of(x, token)); });
        __syncthreads();
        const uint32_t found_keys = count;
        if (found_keys <= OPEN_LIST) {
#pragma unroll 1
            for (uint32_t i = threadIdx.x; i < found_keys; i += OPEN_THREADS) {
                uint32_t rank = 0;
#pragma unroll 4
                for (uint32_t j = 0; j < found_keys; j++) rank += keys[j] < keys[i];
                if (rank < wanted) best[rank] = keys[i];
            }
            if (threadIdx.x == 0) best_count = min(found_keys, wanted);
        } else {
            // More than `wanted` reach it.
            Key last = 0;
#pragma unroll 1
            for (uint32_t i = 0; i < wanted; i++) {
                uint64_t own = 0;
                over_reaching<1>(reach, [&](float x, uint32_t token) {
                    const Key key = key_of(x, token);
                    if (key > last) own = max(own, ~key);
                });
                largest_of_all(own, 0);
                last = ~found_key;
                if (threadIdx.x == 0) best[i] = last;
            }
            if (threadIdx.x == 0) best_count = wanted;
        }
        __syncthreads();
        if (task.scale > 0.0f && threadIdx.x < best_count) atomicAdd(&listed, (unsigned long long)weight_below({x_max, task.scale}, logit_of(best[threadIdx.x])));
        __syncthreads();
    }

    // A token's score in f64, as an integer in the same order: the definition.
    __device__ __forceinline__ uint64_t scored(float x, uint32_t token) const { return order_of_score((double(x) - double(x_max)) * task.inverse + luck_of(noise(), token)); }

    // The f32 scores of the lane's four tokens of a block that race; -inf for the others.
    __device__ __forceinline__ float4 rough_four(float4 x, uint32_t block) const {
        const uint32_t token = token_in(block), global = first_block + block;
        const Noise own = noise();
        const uint4 bits = words(own, TOKEN, token / 4);
        const float minimum = rough_exponential(word(words(own, BLOCK_MINIMUM, global / 4), global % 4)) * (1.0f / 64.0f);
        const uint32_t first = word(words(own, BLOCK_LANE, global / 4), global % 4) >> 26;
        const float factor = float(task.inverse), highest = x_max, lowest = logit_of(end);
        const auto score = [&](float x, uint32_t i, uint32_t bits) {
            const float later = minimum + rough_exponential(bits), time = (token + i) % BLOCK == first ? minimum : later;
            return (x >= lowest) & (x > negative_infinity()) ? (x - highest) * factor - rough_ln(time) : negative_infinity();
        };
        return make_float4(score(x.x, 0, bits.x), score(x.y, 1, bits.y), score(x.z, 2, bits.z), score(x.w, 3, bits.w));
    }

    // Computes the bounds of all blocks; returns the largest of the thread's own.
    __device__ __forceinline__ float make_bounds() {
        const Noise own_noise = noise();
        const float factor = float(task.inverse), highest = x_max, lowest = logit_of(end);
        float own = negative_infinity();
#pragma unroll 1
        for (uint32_t block = threadIdx.x; block < blocks; block += OPEN_THREADS) {
            const float peak = peaks()[block];
            float bound = negative_infinity();
            if (peak >= lowest && peak > negative_infinity()) {
                const uint32_t global = first_block + block;
                bound = (peak - highest) * factor - rough_ln(rough_exponential(word(words(own_noise, BLOCK_MINIMUM, global / 4), global % 4)) * (1.0f / 64.0f));
                // Whatever f32 cannot tell comes first.
                if (bound != bound || bound == negative_infinity()) bound = positive_infinity();
            }
            bounds()[block] = bound;
            own = fmaxf(own, bound);
        }
        __syncthreads();
        return own;
    }

    // The first finishers of the race among the tokens up to `end`.
    __device__ __forceinline__ void race() {
        const float first_bound = nth_largest(make_bounds(), FIRST_RACED);
        const float* const limits = bounds();
        float own = negative_infinity();
        over<1>([=](uint32_t block) { return limits[block] >= first_bound && limits[block] > negative_infinity(); },
                [&](uint32_t block, float4, float4 x) {
                    if (!(largest(x) > negative_infinity())) return;
                    const float4 scores = rough_four(x, block);
                    own = fmaxf(own, largest(scores));
                });
        const float nth = nth_largest(own, OPEN_FINISHERS), bar = nth - slack(nth);
        begin_list();
        over<1>([=](uint32_t block) { return limits[block] > negative_infinity() && !(limits[block] + slack(limits[block]) < bar); },
                [&](uint32_t block, float4, float4 x) {
                    if (!(largest(x) > negative_infinity())) return;
                    const float4 scores = rough_four(x, block);
                    const uint32_t token = token_in(block);
                    const float lowest = logit_of(end);
                    const auto keep = [&](float score, float x, uint32_t token) {
                        if (x >= lowest && x > negative_infinity() && !(score + slack(score) < bar)) add(key_of(x, token));
                    };
                    keep(scores.x, x.x, token);
                    keep(scores.y, x.y, token + 1);
                    keep(scores.z, x.z, token + 2);
                    keep(scores.w, x.w, token + 3);
                });
        __syncthreads();
        const uint32_t runners = count;
        if (runners <= OPEN_LIST) rank_listed(runners);
        else rank_all();
        __syncthreads();
    }

    // Scores the listed tokens in f64, and ranks them.
    __device__ __forceinline__ void rank_listed(uint32_t runners) {
        uint64_t* const orders = reinterpret_cast<uint64_t*>(scores);
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < runners; i += OPEN_THREADS) orders[i] = scored(logit_of(keys[i]), uint32_t(keys[i]));
        __syncthreads();
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < runners; i += OPEN_THREADS) {
            uint32_t rank = 0;
#pragma unroll 1
            for (uint32_t j = 0; j < runners; j++) rank += orders[j] > orders[i] || (orders[j] == orders[i] && uint32_t(keys[j]) < uint32_t(keys[i]));
            if (rank < OPEN_FINISHERS) finishers[rank] = keys[i];
        }
        if (threadIdx.x == 0) finisher_count = min(runners, OPEN_FINISHERS);
    }

    // Finds the finishers one after the other. There are more runners than wanted.
    __device__ __noinline__ void rank_all() {
        const float lowest = logit_of(end);
        uint64_t last = ~0ull;
        uint32_t last_token = 0;
#pragma unroll 1
        for (uint32_t i = 0; i < OPEN_FINISHERS; i++) {
            uint64_t own = 0;
            uint32_t own_token = NO_TOKEN;
            over_reaching<1>(lowest, [&](float x, uint32_t token) {
                const uint64_t order = scored(x, token);
                const bool is_later = order < last || (order == last && token > last_token);
                if (is_later && (order > own || (order == own && token < own_token))) own = order, own_token = token;
            });
            largest_of_all(own, own_token);
            last = found_key;
            last_token = found_token;
            if (threadIdx.x == 0) finishers[i] = key_at(last_token);
        }
        if (threadIdx.x == 0) finisher_count = OPEN_FINISHERS;
    }

    // The key of a token of the part.
    __device__ __noinline__ Key key_at(uint32_t token) const {
        const float raw = ::one(logits + (token - task.start));
        return key_of(is_bare ? raw : Adjustment::adjusted(place, adjustment.touched, token, raw), token);
    }

    // The curve of the masses of the tokens after the best ones.
    __device__ __forceinline__ void draw_curve() {
        constexpr uint32_t OF_THREAD = OPEN_STEPS / OPEN_THREADS;
        const uint32_t lane = threadIdx.x & 31, warp = threadIdx.x >> 5, first = OF_THREAD * threadIdx.x;
        for (uint32_t i = threadIdx.x; i < OPEN_STEPS; i += OPEN_THREADS) sums[i] = 0;
        __syncthreads();
        const Softmax softmax = {x_max, task.scale};
        const Key last = best[best_count - 1], latest = end;
        // Weights are 0 from 2^-44 on; the rest is room for rounding.
        const float reach = fmaxf(softmax.x_max - 50.0f / softmax.scale, logit_of(latest));
        // Many tokens have the last step, and atomics on one place wait for each other: each thread sums its own.
        uint64_t of_last_step = 0;
        over_reaching<4>(reach, [&](float x, uint32_t token) {
            const Key key = key_of(x, token);
            if (key <= last || key > latest) return;
            const uint64_t own = weight_below(softmax, x);
            const float depth = (softmax.x_max - x) * softmax.scale;
            const uint32_t step = uint32_t(fminf(float(OPEN_STEPS_PER_OCTAVE) * depth, float(OPEN_STEPS - 1)));
            if (step == OPEN_STEPS - 1) of_last_step += own;
            else if (own > 0) atomicAdd(&sums[step], (unsigned long long)own);
        });
#pragma unroll
        for (int offset = 16; offset > 0; offset >>= 1) of_last_step += __shfl_xor_sync(ALL_LANES, of_last_step, offset);
        if (lane == 0 && of_last_step > 0) atomicAdd(&sums[OPEN_STEPS - 1], (unsigned long long)of_last_step);
        __syncthreads();
        // Sums up to each step.
        uint64_t own = 0;
#pragma unroll
        for (uint32_t i = 0; i < OF_THREAD; i++) own += sums[first + i];
        uint64_t upto = own;
#pragma unroll
        for (int offset = 1; offset < 32; offset <<= 1) {
            const uint64_t other = __shfl_up_sync(ALL_LANES, upto, offset);
            if (lane >= offset) upto += other;
        }
        if (lane == 31) of_warps[warp] = upto;
        __syncthreads();
        uint64_t before = upto - own;
#pragma unroll 1
        for (uint32_t i = 0; i < warp; i++) before += of_warps[i];
#pragma unroll 1
        for (uint32_t i = 0; i < OF_THREAD; i++) {
            before += sums[first + i];
            sums[first + i] = before;
        }
        __syncthreads();
        const uint64_t mass = sums[OPEN_STEPS - 1];
        if (threadIdx.x == 0) rest = mass;
        if (threadIdx.x < OPEN_POINTS) {
            const uint64_t target = target_of(threadIdx.x, mass);
            uint32_t low = 0, high = OPEN_STEPS;
#pragma unroll 1
            while (low < high) {
                const uint32_t middle = (low + high) / 2;
                if (sums[middle] <= target) low = middle + 1;
                else high = middle;
            }
            points[threadIdx.x] = uint16_t(low);
        }
        __syncthreads();
    }

    // The mass that a point is about (measure/curve.rs: Targets).
    __device__ __forceinline__ uint64_t target_of(uint32_t point, uint64_t mass) const {
        constexpr uint32_t HALF = OPEN_POINTS / 2;
        if (task.focus == 0) return share_of(mass, point, OPEN_POINTS);
        if (point < HALF) return share_of(mass, point, HALF);
        const unsigned __int128 product = (unsigned __int128)task.focus * (mass + listed);
        const uint64_t share = uint64_t(product >> 53), cut = min(share > listed ? share - uint64_t(listed) : 0, mass), around = mass / OPEN_FOCUS;
        return min((cut > around ? cut - around : 0) + share_of(2 * around, point - HALF, HALF), mass);
    }

    // Writes the bytes of a number into the message, the lowest first.
    __device__ __forceinline__ void put(uint32_t at, uint64_t number, uint32_t bytes) {
#pragma unroll 1
        for (uint32_t i = 0; i < bytes; i++) message[at + i] = uint8_t(number >> 8 * i);
    }

    // Writes the message.
    __device__ __forceinline__ void write(bool is_alive) {
        const uint32_t keys_sent = best_count + finisher_count, points_sent = task.scale > 0.0f ? OPEN_POINTS : 0;
        // The two numbers come first, then the length, then the header.
        if (threadIdx.x < OPEN_HEAD) message[threadIdx.x < 16 ? threadIdx.x : threadIdx.x + 4] = task.head[threadIdx.x];
        if (threadIdx.x == 0) {
            const bool is_bad = bad != NO_TOKEN;
            put(16, OPEN_KEYS - 20 + 8 * keys_sent + 2 * points_sent, 4);
            put(OPEN_ANSWER, is_alive ? top : ~0ull, 8);
            put(OPEN_ANSWER + 8, is_bad ? bad >> 1 : NO_TOKEN, 4);
            put(OPEN_ANSWER + 12, is_bad ? bad & 1 : 0, 1);
            put(OPEN_ANSWER + 13, !is_bad && is_changed == 0, 1);
            put(OPEN_ANSWER + 14, best_count, 4);
            put(OPEN_ANSWER + 18, rest, 8);
            put(OPEN_ANSWER + 26, keys_sent, 4);
        }
        if (threadIdx.x < keys_sent) put(OPEN_KEYS + 8 * threadIdx.x, threadIdx.x < best_count ? best[threadIdx.x] : finishers[threadIdx.x - best_count], 8);
        if (threadIdx.x < points_sent) put(OPEN_KEYS + 8 * keys_sent + 2 * threadIdx.x, points[threadIdx.x], 2);
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < OPEN_SLOT / 4; i += OPEN_THREADS) {
            const uint8_t* const four_bytes = message + 4 * i;
            task.slot[i] = four_bytes[0] | four_bytes[1] << 8 | four_bytes[2] << 16 | uint32_t(four_bytes[3]) << 24;
        }
    }

    // Everything, from the task to the message.
    __device__ __forceinline__ void open(const OpenTask& from) {
        prepare(from);
        survey();
        const bool is_alive = bad == NO_TOKEN && find_top();
        if (is_alive) {
            if (task.best > 0) list_best();
            if (task.inverse > 0.0) race();
            if (task.scale > 0.0f && best_count == task.best) draw_curve();
        }
        write(is_alive);
    }
};

template <typename T>
__device__ __forceinline__ void open_row(const OpenStep& step) {
    __shared__ Opening<T> opening;
    opening.open(step.tasks[blockIdx.x]);
}
