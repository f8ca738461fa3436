// The second pass: a token for every row, by one block of threads. It opens only the blocks of tokens that could change its answer.
//
// A draw goes through its code once, so the code is short and shared: what a function needs of the row lies in shared memory, and few are inlined.
#pragma once

#include "edit.cuh"
#include "history.cuh"

constexpr uint32_t DRAW_THREADS = 256;
constexpr uint32_t WARPS = DRAW_THREADS / 32;
// Blocks that a thread has in hand at a time.
constexpr uint32_t EACH = 8;
// Keys that fit the list of the best tokens.
constexpr uint32_t LISTED = 2048;
// Tokens that a race in f32 could not tell from its winner.
constexpr uint32_t CANDIDATES = 256;
// A score or a bound in f32 is within this of what it is in f64. Only scores above -4 count, since the best token's is: there f32 is that good.
constexpr float MARGIN = 1.0f / 1024.0f;
constexpr uint32_t ALL = 0xffffffffu;

struct Finalist {
    double score;
    uint32_t token;
    float logit;
};

// How many tokens, and how much they weigh.
struct Census {
    uint64_t count, mass;
};

template <typename T>
struct Draw {
    // A copy of the sequence: to look into device memory takes half a microsecond each time.
    Sequence row;
    Place place;
    Adjustment adjustment;
    const T* logits;
    // For each block: its largest logit, what that may gain by noise, and memory for a word; in device memory the sum of its weights.
    float *highest, *lucks;
    uint32_t* work;
    const float* sums;
    uint32_t vocabulary, blocks;
    float x_max, inverse;
    // What is left lies below `above` and not below `lowest`.
    float above, lowest;
    // Whether there are no masks and no edits, or nobody asks after them.
    bool is_bare;
    // What one thread found out for all.
    Key found_key;
    float found_logit;
    uint64_t found_number;
    // A score that some token has, in f32 and with its margin: what is lower cannot win.
    volatile float lead;
    uint32_t count, deepest, listed_blocks;
    uint16_t* opened;
    Census parts[WARPS];
    Finalist finalists[WARPS];
    float tops[WARPS];
    uint32_t bins[256];
    Key candidates[CANDIDATES];
    float rough_scores[CANDIDATES];
    Key keys[LISTED];
    // No more of them are raced than half the list.
    float listed_scores[LISTED / 2];

    // A logit as masks and edits leave it; of a token past the vocabulary -inf.
    __device__ __forceinline__ float at(uint32_t token) const {
        if (token >= vocabulary) return negative_infinity();
        const float x = widened(logits[token]);
        return is_bare ? x : Adjustment::adjusted(place, adjustment.touched, token, x);
    }

    __device__ __forceinline__ bool passes(float x) const { return x >= lowest && x < above; }

    // The lowest x with x - x_max >= threshold, in f64: the nearest f32, or its neighbour.
    __device__ __forceinline__ float lowest_of(double threshold) const {
        uint32_t place = descending(float(double(x_max) + threshold));
        while (!(double(logit_of_place(place)) - double(x_max) >= threshold)) place--;
        while (double(logit_of_place(place + 1)) - double(x_max) >= threshold && place + 1 <= descending(-3.402823466e+38f)) place++;
        return logit_of_place(place);
    }

    __device__ __forceinline__ Noise noise() const { return {row.seed, row.position + place.depth, row.sequence, row.round}; }

    // ---- over all threads ----

    __device__ __noinline__ Census sum(uint64_t count, uint64_t mass) {
        const uint32_t lane = threadIdx.x & 31;
#pragma unroll 1
        for (int turn = 0; turn < 2; turn++) {
#pragma unroll
            for (int offset = 16; offset > 0; offset >>= 1) {
                count += __shfl_xor_sync(ALL, count, offset);
                mass += __shfl_xor_sync(ALL, mass, offset);
            }
            if (turn == 1) break;
            __syncthreads();
            if (lane == 0) parts[threadIdx.x >> 5] = {count, mass};
            __syncthreads();
            count = lane < WARPS ? parts[lane].count : 0;
            mass = lane < WARPS ? parts[lane].mass : 0;
        }
        return {count, mass};
    }

    // Within a warp: the higher score, then the lower id.
    __device__ __noinline__ static Finalist best_of_warp(Finalist own) {
#pragma unroll 1
        for (int offset = 16; offset > 0; offset >>= 1) {
            const double score = __shfl_xor_sync(ALL, own.score, offset);
            const uint32_t token = __shfl_xor_sync(ALL, own.token, offset);
            const float logit = __shfl_xor_sync(ALL, own.logit, offset);
            if (score > own.score || (score == own.score && token < own.token)) own = {score, token, logit};
        }
        return own;
    }

    __device__ __noinline__ Finalist best(Finalist own) {
        const uint32_t lane = threadIdx.x & 31;
        own = best_of_warp(own);
        __syncthreads();
        if (lane == 0) finalists[threadIdx.x >> 5] = own;
        __syncthreads();
        return best_of_warp(finalists[lane & (WARPS - 1)]);
    }

    __device__ __forceinline__ static Finalist nobody() { return {-__longlong_as_double(0x7ff0000000000000ll), 0xffffffffu, negative_infinity()}; }

    // ---- over blocks ----

    // Lists the blocks that hold something and of whose largest logit `reaches` is true; how many.
    template <typename Reaches>
    __device__ __forceinline__ uint32_t collect_where(Reaches reaches) {
        const uint32_t lane = threadIdx.x & 31;
        __syncthreads();
        if (threadIdx.x == 0) count = 0;
        __syncthreads();
#pragma unroll 1
        for (uint32_t start = threadIdx.x & ~31u; start < blocks; start += DRAW_THREADS) {
            const uint32_t own = start + lane;
            const bool is_in = own < blocks && highest[own] > negative_infinity() && reaches(highest[own]);
            const uint32_t in = __ballot_sync(ALL, is_in);
            if (in == 0) continue;
            uint32_t place = 0;
            if (lane == 0) place = atomicAdd(&count, __popc(in));
            place = __shfl_sync(ALL, place, 0) + __popc(in & ((1u << lane) - 1));
            if (is_in) work[place] = own;
        }
        __syncthreads();
        return count;
    }

    __device__ __noinline__ uint32_t collect(float reach) {
        return collect_where([reach](float top) { return top >= reach; });
    }

    // Goes over the tokens of the first `listed` blocks of the list, two a lane: `each(x, token)` for every one. The reads of the blocks to come are under way meanwhile.
    template <typename Each>
    __device__ __forceinline__ void over(uint32_t listed, Each each) {
        constexpr uint32_t AHEAD = 3;
        const uint32_t lane = threadIdx.x & 31;
        float x[AHEAD + 1], y[AHEAD + 1];
        uint32_t place = threadIdx.x >> 5;
        const auto fetch = [&](uint32_t of, float& low, float& high) {
            const uint32_t token = of < listed ? work[of] * BLOCK + lane : vocabulary;
            low = at(token);
            high = at(token + 32);
        };
#pragma unroll
        for (uint32_t i = 0; i < AHEAD; i++) fetch(place + i * WARPS, x[i], y[i]);
#pragma unroll 1
        for (; place < listed; place += WARPS) {
            fetch(place + AHEAD * WARPS, x[AHEAD], y[AHEAD]);
            const uint32_t token = work[place] * BLOCK + lane;
#pragma unroll 1
            for (int half = 0; half < 2; half++) each(half ? y[0] : x[0], token + 32 * half);
#pragma unroll
            for (uint32_t i = 0; i < AHEAD; i++) {
                x[i] = x[i + 1];
                y[i] = y[i + 1];
            }
        }
    }

    // The tokens up to and including `last` that pass.
    __device__ __noinline__ Census census(Key last, float scale) {
        const Softmax softmax = {x_max, scale};
        uint64_t tokens = 0, mass = 0;
        over(collect(logit_of(last)), [&](float x, uint32_t token) {
            const bool is_in = key_of(x, token) <= last && passes(x);
            tokens += is_in;
            mass += is_in ? weight(softmax, x) : 0;
        });
        return sum(tokens, mass);
    }

    // ---- the cuts of single stages: cut.cuh ----

    // The token in which unit number `unit` of the measure lies, counted in the order from 0, among those up to `last` that pass; the end if there is less.
    // A scale of 0 measures tokens, any other their weights.
    __device__ __noinline__ Key select(float scale, uint64_t unit, Key last);

    // Over the tokens up to `last` that pass: `measure(x, bin)` sets the bin of each and returns what it adds there; finds the bin that unit number
    // `unit` lies in, and leaves in `found_number` which of the bin's units it is. Bins are 2048.
    template <typename Measure>
    __device__ __forceinline__ uint32_t crossed(uint64_t unit, Key last, Measure measure);

    // The lowest logit for which `holds`, which must hold for a run of logits that begins with `from`; +inf if it does not hold there.
    template <typename Holds>
    __device__ __forceinline__ float lowest_where(float from, Holds holds);

    __device__ __noinline__ Key cut_cutoff(const Stage& stage, Key last);
    __device__ __noinline__ Key cut_sigma(const Stage& stage, Key last);
    __device__ __noinline__ Key cut_typical(const Stage& stage, Key last);

    // The last token that all stages keep; `above` and `lowest` say the rest.
    __device__ __noinline__ Key cut();

    // ---- what is reported: report.cuh ----

    __device__ __noinline__ void report(const Step& step, uint32_t token, Key last);

    // ---- the race ----

    __device__ __noinline__ Finalist scored(Key key) const;

    // The winner among the tokens before a key that pass. Half a warp scores a block, four tokens a lane, in f32; what could have won is scored again in f64.
    __device__ __noinline__ Finalist race(Key before);

    // ---- the first tokens of the order, listed ----

    // How far below the best a logit is, in steps of a sixteenth of its distance.
    __device__ __forceinline__ uint32_t depth(float x) const {
        constexpr uint32_t LOWEST = (127 - 8) << 4;
        const uint32_t bits = __float_as_uint(x_max - x) >> 19;
        return bits <= LOWEST ? 0 : min(bits - LOWEST, 255u);
    }

    // Lists at least the first k tokens of the order, or all there are, sorted; how many, or 0 if they do not fit.
    __device__ __noinline__ uint32_t list(uint32_t k);

    __device__ __noinline__ void sort(uint32_t listed);

    // How many of the first sorted tokens pass.
    __device__ __noinline__ uint32_t passing(uint32_t listed);

    // How many of the first sorted tokens TOP_P keeps, of a total mass; 0: that of these tokens.
    __device__ __noinline__ uint32_t top_p(const Stage& stage, uint32_t listed, uint64_t total);

    // Whether a mass is below a share, in units of 2^-53, of a total.
    __device__ __forceinline__ static bool is_below(uint64_t mass, uint64_t share, uint64_t total) {
        const uint64_t high = mass >> 11, low = mass << 53;
        const uint64_t other_high = __umul64hi(share, total), other_low = share * total;
        return high < other_high || (high == other_high && low < other_low);
    }

    // The winner among the first tokens of the sorted list: in f32 first, as in `race`.
    __device__ __noinline__ Finalist race_listed(uint32_t listed);

    // The mass of the whole row, between two bounds, from the sums of the first pass.
    __device__ __noinline__ void estimate(float scale, uint64_t& least, uint64_t& most) {
        double mass = 0.0;
        for (uint32_t block = threadIdx.x; block < blocks; block += DRAW_THREADS) {
            if (highest[block] > negative_infinity()) mass += double(exp2f((highest[block] - x_max) * scale) * sums[block]);
        }
#pragma unroll
        for (int offset = 16; offset > 0; offset >>= 1) mass += __shfl_xor_sync(ALL, mass, offset);
        __syncthreads();
        if ((threadIdx.x & 31) == 0) finalists[threadIdx.x >> 5].score = mass;
        __syncthreads();
        mass = finalists[threadIdx.x & (WARPS - 1)].score;
#pragma unroll
        for (int offset = WARPS / 2; offset > 0; offset >>= 1) mass += __shfl_xor_sync(ALL, mass, offset);
        // The sums are within 2^-15; the rest of the margin is spare. A weight is rounded down.
        constexpr double ERROR = 1.0 / 16384.0;
        mass *= double(UNIT);
        const double low = mass * (1.0 - ERROR) - double(vocabulary);
        least = low > 0.0 ? uint64_t(low) : 0;
        most = uint64_t(mass * (1.0 + ERROR)) + 1;
    }

    // ---- the draw ----

    // Reads the largest logit of every block into shared memory, and of the peaks what noise may add; the largest of all.
    template <bool WITH_LUCK>
    __device__ __forceinline__ float load(const float* from) {
        float top = negative_infinity();
        const uint32_t all = blocks;
        float *const tallest = highest, *const gains = lucks;
#pragma unroll 1
        for (uint32_t start = threadIdx.x; start < all; start += EACH * DRAW_THREADS) {
            // All reads are under way before the first is waited for.
            float2 peak[EACH];
#pragma unroll
            for (uint32_t i = 0; i < EACH; i++) {
                const uint32_t block = start + i * DRAW_THREADS;
                peak[i] = make_float2(negative_infinity(), 0.0f);
                if (block < all) peak[i] = WITH_LUCK ? reinterpret_cast<const float2*>(from)[block] : make_float2(from[block], 0.0f);
            }
#pragma unroll
            for (uint32_t i = 0; i < EACH; i++) {
                const uint32_t block = start + i * DRAW_THREADS;
                if (block < all) {
                    tallest[block] = peak[i].x;
                    if (WITH_LUCK) gains[block] = peak[i].y;
                }
                top = fmaxf(top, peak[i].x);
            }
        }
#pragma unroll
        for (int offset = 16; offset > 0; offset >>= 1) top = fmaxf(top, __shfl_xor_sync(ALL, top, offset));
        if ((threadIdx.x & 31) == 0) tops[threadIdx.x >> 5] = top;
        __syncthreads();
        top = tops[threadIdx.x & (WARPS - 1)];
#pragma unroll
        for (int offset = WARPS / 2; offset > 0; offset >>= 1) top = fmaxf(top, __shfl_xor_sync(ALL, top, offset));
        return top;
    }

    // The edit that took the last token: the first after which nothing is alive; 0xffffffff if nothing was to begin with.
    __device__ __noinline__ uint32_t emptied_by() const {
#pragma unroll 1
        for (uint32_t edits = 0; edits <= row.edits; edits++) {
            bool is_alive = false;
#pragma unroll 1
            for (uint32_t token = threadIdx.x; token < vocabulary; token += DRAW_THREADS) is_alive |= place.edited(token, widened(logits[token]), edits) > negative_infinity();
            if (!__syncthreads_or(is_alive)) return edits - 1;
        }
        return 0xffffffffu;
    }

    // What is wrong with the row, or what it draws.
    __device__ __forceinline__ Result draw(const Step& step, uint32_t number) {
        uint32_t* const bad = step.bad + number;
        const uint32_t bad_token = *bad;
        const Task task = step.tasks[number];
        const uint64_t* const record = reinterpret_cast<const uint64_t*>(step.sequences + task.slot);
        if (threadIdx.x < sizeof(Sequence) / 8) reinterpret_cast<uint64_t*>(&row)[threadIdx.x] = record[threadIdx.x];
        const float top = load<true>(reinterpret_cast<const float*>(step.peaks + uint64_t(number) * step.pitch));
        // For the next step.
        if (threadIdx.x == 0) {
            *bad = 0xffffffffu;
            place = {&row, task.mask, task.path, task.depth};
            adjustment = {task.mask, row.allowed, row.touched};
            x_max = top;
            inverse = float(row.inverse);
            above = __uint_as_float(0x7f800000u);
            lowest = negative_infinity();
            is_bare = task.mask == nullptr && row.allowed == nullptr && row.touched == nullptr;
        }
        __syncthreads();
        if (bad_token != 0xffffffffu) {
            const float x = widened(logits[bad_token]);
            return {bad_token, x == x ? INFINITE_LOGIT : NAN_LOGIT};
        }
        if (!(top > negative_infinity())) return {emptied_by(), NOTHING_LEFT};
        uint32_t token;
        Key last = key_end();
        if (row.is_greedy) {
            // Typical may take the first token away; every other truncation keeps it.
            if (!row.is_plain) last = cut();
            token = leader().token;
        } else if (row.is_plain) {
            token = truncated();
        } else {
            last = cut();
            token = race(last + 1).token;
        }
        if (row.logprobs > 0) report(step, token, last);
        return {token, DRAWN};
    }

    // The first token of the order.
    __device__ __noinline__ Finalist leader() {
        Finalist first = nobody();
        const float top = x_max;
        over(collect(top), [&](float x, uint32_t token) {
            if (x == top && token < first.token) first = {0.0, token, x};
        });
        return best(first);
    }

    __device__ __forceinline__ void set_lowest(float value) {
        __syncthreads();
        if (threadIdx.x == 0) lowest = value;
        __syncthreads();
    }

    // The winner of the race among what all stages keep.
    __device__ __forceinline__ uint32_t truncated() {
        const Stage *min_p = nullptr, *top_k = nullptr, *nucleus = nullptr;
        // Whether they stand before TOP_P: it sees the mass that they leave.
        bool min_p_first = false, top_k_first = false;
#pragma unroll 1
        for (uint32_t i = 0; i < row.stages; i++) {
            const Stage* stage = &row.stage[i];
            if (stage->kind == MIN_P) {
                min_p = stage;
                min_p_first = nucleus == nullptr;
            } else if (stage->kind == TOP_K) {
                top_k = stage;
                top_k_first = nucleus == nullptr;
            } else {
                nucleus = stage;
            }
        }
        const Key end = key_end();
        uint32_t listed = top_k != nullptr && top_k->k <= LISTED / 2 ? list(top_k->k) : 0;
        if (listed != 0) {
            listed = min(listed, top_k->k);
            if (min_p != nullptr && min_p_first) {
                set_lowest(lowest_of(min_p->number));
                listed = passing(listed);
            }
            if (nucleus != nullptr) listed = top_p(*nucleus, listed, top_k_first ? 0 : census(end, nucleus->scale).mass);
            if (min_p != nullptr && !min_p_first) {
                set_lowest(lowest_of(min_p->number));
                listed = passing(listed);
            }
            return race_listed(listed).token;
        }
        Key last = top_k != nullptr ? select(0.0f, top_k->k - 1, end) : end;
        uint64_t total = 0, least = 0, most = ~0ull;
        if (nucleus != nullptr) {
            // The mass that it finds: exact where others stand before it, else first between two bounds.
            if (min_p != nullptr && min_p_first) set_lowest(lowest_of(min_p->number));
            if ((top_k != nullptr && top_k_first) || (min_p != nullptr && min_p_first)) {
                total = census(top_k != nullptr && top_k_first ? last : end, nucleus->scale).mass;
            } else {
                estimate(nucleus->scale, least, most);
            }
        }
        if (min_p != nullptr) set_lowest(lowest_of(min_p->number));
        Key before = last + 1;
#pragma unroll 1
        while (true) {
            const Finalist winner = race(before);
            if (nucleus == nullptr) return winner.token;
            const Key key = key_of(winner.logit, winner.token);
            // What MIN_P removes is behind whatever it keeps, so the mass before a winner is the same with it and without.
            const uint64_t mass = census(key - 1, nucleus->scale).mass;
            if (total == 0) {
                if (is_below(mass, nucleus->share, least)) return winner.token;
                if (is_below(mass, nucleus->share, most)) {
                    set_lowest(negative_infinity());
                    total = census(end, nucleus->scale).mass;
                    if (min_p != nullptr) set_lowest(lowest_of(min_p->number));
                }
            }
            if (total != 0 && is_below(mass, nucleus->share, total)) return winner.token;
            before = key;
        }
    }
};

#include "cut.cuh"
#include "list.cuh"
#include "race.cuh"
#include "report.cuh"

template <typename T>
__device__ __forceinline__ void draw_row(const Step& step) {
    __shared__ Draw<T> draw;
    extern __shared__ float memory[];
    const uint32_t number = blockIdx.x, blocks = step.pitch;
    if (threadIdx.x == 0) {
        draw.logits = static_cast<const T*>(step.logits) + int64_t(number) * step.stride;
        draw.highest = memory;
        draw.lucks = memory + blocks;
        draw.work = reinterpret_cast<uint32_t*>(memory + 2 * blocks);
        draw.opened = reinterpret_cast<uint16_t*>(memory + 3 * blocks);
        draw.sums = step.sums + uint64_t(number) * step.pitch;
        draw.vocabulary = step.vocabulary;
        draw.blocks = blocks;
    }
    __syncthreads();
    const Result result = draw.draw(step, number);
    if (threadIdx.x == 0) {
        step.results[number] = result;
        // A row with logprobs moves on when these are done.
        if (step.advances && result.status == DRAWN && draw.row.logprobs == 0) append(step.sequences[step.tasks[number].slot], result.token);
    }
}
