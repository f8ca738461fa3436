// The second pass: a token for every row, by one block of threads. It opens only the blocks of tokens that could change its answer.
//
// A draw goes through its code once, so the code is short and shared: what a function needs of the row lies in shared memory, and few are inlined.
#pragma once

#include <cuda_pipeline_primitives.h>

#include "edit.cuh"
#include "history.cuh"
#include "skyline.cuh"

constexpr uint32_t DRAW_THREADS = 512;
constexpr uint32_t WARPS = DRAW_THREADS / 32;
// What is known of blocks lies in shared memory, four in a vector, and is as long as a multiple of this, so that nobody asks where it ends.
constexpr uint32_t ROUND_UP = 4 * DRAW_THREADS;
// Keys that fit the list of the best tokens.
constexpr uint32_t LISTED = 2048;
// Tokens that a thread each can look after.
constexpr uint32_t FEW = DRAW_THREADS;
// Tokens that a race in f32 could not tell from its winner.
constexpr uint32_t CANDIDATES = 256;
// A score or a bound in f32 is within this of what it is in f64. Only scores above -4 count, since the best token's is: there f32 is that good.
constexpr float MARGIN = 1.0f / 1024.0f;
// The sums of f32 powers are within 2^-15 of what they stand for; the rest of the margin is spare.
constexpr float SUM_ERROR = 1.0f / 16384.0f;
constexpr uint32_t ALL = 0xffffffffu;
// Depths below the best logit are sixteenths of an octave, from 2^-8 on.
constexpr uint32_t DEPTH_LOWEST = (127 - 8) << 4;

extern __shared__ float memory[];

struct Finalist {
    double score;
    uint32_t token;
    float logit;
};

// What a mass is at least, and at most.
struct Bounds {
    uint64_t least, most;
};

// How many tokens, and how much they weigh.
struct Census {
    uint64_t count, mass;
};

// BARE: no row has a mask or an edit, and every one is plain and asks for its token alone.
template <typename T, bool BARE>
struct Draw {
    // A copy of the sequence: to look into device memory takes half a microsecond each time.
    Sequence row;
    Place place;
    uint32_t slot;
    Adjustment adjustment;
    const T* logits;
    uint32_t vocabulary;
    // Blocks that there is room for; those past the vocabulary hold nothing.
    uint32_t room;
    // The largest logit, and that of what is left.
    float summit, x_max;
    // What is left lies below `above` and not below `lowest`.
    float above, lowest;
    // Whether there are no masks and no edits, or nobody asks after them.
    bool is_bare;
    // What one thread found out for all.
    Key found_key;
    float found_logit;
    uint64_t found_number;
    // The order of a score that some token has, in f32 and less its margin: what is lower cannot win.
    int lead;
    // The race is among the tokens before this one.
    Key before;
    uint32_t count, others;
    // What the warps found out, for all; twice, so that one is read while the other is written.
    alignas(16) uint32_t tallies[2][3][WARPS];
    Census parts[WARPS];
    Finalist finalists[WARPS];
    float tops[WARPS], other_tops[WARPS];
    Key candidates[CANDIDATES];
    float rough_scores[CANDIDATES];
    Key keys[LISTED];
    // No more of them are raced than half the list.
    float listed_scores[LISTED / 2];

    // For each block: its largest logit; what that may gain by noise; its mass, as f32; and memory for a word.
    __device__ __forceinline__ float* highest() const { return memory; }
    __device__ __forceinline__ float* lucks() const { return memory + room; }
    __device__ __forceinline__ float* masses() const { return memory + 2 * room; }
    __device__ __forceinline__ uint32_t* work() const { return reinterpret_cast<uint32_t*>(memory + 3 * room); }

    // A logit as masks and edits leave it; of a token past the vocabulary -inf.
    __device__ __forceinline__ float at(uint32_t token) const {
        if (token >= vocabulary) return negative_infinity();
        const float x = one(logits + token);
        return BARE || is_bare ? x : Adjustment::adjusted(place, adjustment.touched, token, x);
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

    // The largest of all threads, which each of them gets.
    __device__ __forceinline__ float largest_of_all(float x) {
        x = largest_of_warp(x);
        __syncthreads();
        if ((threadIdx.x & 31) == 0) tops[threadIdx.x >> 5] = x;
        __syncthreads();
        return largest_of_warp(tops[threadIdx.x & (WARPS - 1)]);
    }

    // Three sums over all threads, which each of them gets. Two calls in a row name different `turn`s, 0 and 1.
    __device__ __forceinline__ uint3 tallied(uint3 own, uint32_t turn) {
        const uint32_t lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
        own = make_uint3(__reduce_add_sync(ALL, own.x), __reduce_add_sync(ALL, own.y), __reduce_add_sync(ALL, own.z));
        if (lane < 3) tallies[turn][lane][warp] = lane == 0 ? own.x : lane == 1 ? own.y : own.z;
        __syncthreads();
        const bool is_one = lane < WARPS;
        return make_uint3(__reduce_add_sync(ALL, is_one ? tallies[turn][0][lane & (WARPS - 1)] : 0), __reduce_add_sync(ALL, is_one ? tallies[turn][1][lane & (WARPS - 1)] : 0),
                          __reduce_add_sync(ALL, is_one ? tallies[turn][2][lane & (WARPS - 1)] : 0));
    }

    // Three counts in fields of ten bits, no more than a thousand a warp: fewer sums for the same. As `tallied` otherwise.
    __device__ __forceinline__ uint3 counted(uint32_t own, uint32_t turn) {
        const uint32_t lane = threadIdx.x & 31, of_warp = __reduce_add_sync(ALL, own);
        if (lane == 0) tallies[turn][0][threadIdx.x >> 5] = of_warp;
        __syncthreads();
        const uint32_t theirs = lane < WARPS ? tallies[turn][0][lane] : 0, two = __reduce_add_sync(ALL, (theirs & 1023) | (theirs >> 10 & 1023) << 16);
        return make_uint3(two & 0xffff, two >> 16, __reduce_add_sync(ALL, theirs >> 20));
    }

    // ---- over blocks ----

    // Lists the blocks for whose number in an array `reaches` is true; how many.
    template <typename Reaches>
    __device__ __forceinline__ uint32_t collect_where(const float* numbers, Reaches reaches) {
        const uint32_t lane = threadIdx.x & 31, quads = room / 4, lower = (1u << lane) - 1;
        const float4* const tallest = reinterpret_cast<const float4*>(numbers);
        uint32_t* const listed = work();
        __syncthreads();
        if (threadIdx.x == 0) count = 0;
        __syncthreads();
#pragma unroll 1
        for (uint32_t quad = threadIdx.x; quad < quads; quad += DRAW_THREADS) {
            const float4 top = tallest[quad];
            const bool x = reaches(top.x), y = reaches(top.y), z = reaches(top.z), w = reaches(top.w);
            const uint32_t xs = __ballot_sync(ALL, x), ys = __ballot_sync(ALL, y), zs = __ballot_sync(ALL, z), ws = __ballot_sync(ALL, w);
            if ((xs | ys | zs | ws) == 0) continue;
            uint32_t place = 0;
            if (lane == 0) place = atomicAdd(&count, __popc(xs) + __popc(ys) + __popc(zs) + __popc(ws));
            place = __shfl_sync(ALL, place, 0);
            if (x) listed[place + __popc(xs & lower)] = 4 * quad;
            place += __popc(xs);
            if (y) listed[place + __popc(ys & lower)] = 4 * quad + 1;
            place += __popc(ys);
            if (z) listed[place + __popc(zs & lower)] = 4 * quad + 2;
            place += __popc(zs);
            if (w) listed[place + __popc(ws & lower)] = 4 * quad + 3;
        }
        __syncthreads();
        return count;
    }

    __device__ __noinline__ uint32_t collect(float reach) {
        return collect_where(highest(), [reach](float top) { return (top >= reach) & (top > negative_infinity()); });
    }

    // Goes over the tokens of the first `listed` blocks of the list, two a lane: `each(x, token)` for every one. The reads of the blocks to come are under way meanwhile.
    template <typename Each>
    __device__ __forceinline__ void over(uint32_t listed, Each each) {
        constexpr uint32_t AHEAD = 3;
        const uint32_t lane = threadIdx.x & 31;
        float x[AHEAD + 1], y[AHEAD + 1];
        uint32_t place = threadIdx.x >> 5;
        const auto fetch = [&](uint32_t of, float& low, float& high) {
            const uint32_t token = of < listed ? work()[of] * BLOCK + lane : vocabulary;
            low = at(token);
            high = at(token + 32);
        };
#pragma unroll
        for (uint32_t i = 0; i < AHEAD; i++) fetch(place + i * WARPS, x[i], y[i]);
#pragma unroll 1
        for (; place < listed; place += WARPS) {
            fetch(place + AHEAD * WARPS, x[AHEAD], y[AHEAD]);
            const uint32_t token = work()[place] * BLOCK + lane;
#pragma unroll 1
            for (int half = 0; half < 2; half++) each(half ? y[0] : x[0], token + 32 * half);
#pragma unroll
            for (uint32_t i = 0; i < AHEAD; i++) {
                x[i] = x[i + 1];
                y[i] = y[i + 1];
            }
        }
    }

    // Appends to the list of keys what some lanes of a warp have, all of which come here; what does not fit is counted only.
    __device__ __forceinline__ void append_key(bool is_in, Key key) {
        const uint32_t in = __ballot_sync(ALL, is_in), lane = threadIdx.x & 31;
        if (in == 0) return;
        uint32_t place = 0;
        if (lane == 0) place = atomicAdd(&count, __popc(in));
        place = __shfl_sync(ALL, place, 0) + __popc(in & ((1u << lane) - 1));
        if (is_in && place < LISTED) keys[place] = key;
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

    // ---- verification: verify.cuh ----

    // What is drawn from: the probability of every token, those that go being 0.
    __device__ __noinline__ void write_law(double* law, Key last);

    // ---- the race: race.cuh ----

    __device__ __noinline__ Finalist scored(Key key) const;

    // Scores the tokens of a block, one for each half of a warp, in f32: half a warp has four tokens a lane. What could have won is kept.
    __device__ __forceinline__ void open(uint32_t block);

    // The winner among the tokens before a key that pass.
    __device__ __noinline__ Finalist race(Key end);

    // ---- the first tokens of the order, listed: list.cuh ----

    // How far below the best a logit is, in steps of a sixteenth of its distance.
    __device__ __forceinline__ uint32_t depth(float x) const {
        const uint32_t bits = __float_as_uint(x_max - x) >> 19;
        return bits <= DEPTH_LOWEST ? 0 : min(bits - DEPTH_LOWEST, 255u);
    }

    // The distance at which a depth ends.
    __device__ __forceinline__ static float depth_ends(uint32_t depth) { return depth >= 255 ? __uint_as_float(0x7f800000u) : __uint_as_float((DEPTH_LOWEST + depth + 1) << 19); }

    // A depth down to which k blocks reach at least, and no more than half as many again if it can be helped.
    __device__ __noinline__ uint32_t depth_of(uint32_t k);

    // Lists the tokens that are nearer to the best logit than so, unsorted; how many there are.
    __device__ __noinline__ uint32_t gather(float distance);

    // A token's score in f32.
    __device__ __forceinline__ float rough_score(uint32_t token, float x, float luck) const {
        const float minimum = power_of(luck * -1.44269504f), later = minimum + rough_exponential(word(words(noise(), TOKEN, token / 4), token % 4));
        return (x - x_max) * float(row.inverse) - rough_ln((__float_as_uint(luck) & LANE_BITS) == token % BLOCK ? minimum : later);
    }

    // Of few listed tokens, unsorted: the winner among the first k of the order that MIN_P and TOP_P leave.
    __device__ __noinline__ uint32_t race_few(uint32_t listed, uint32_t k, const Stage* nucleus, float bottom_before, float bottom);

    // Lists at least the first k tokens of the order, or all there are, sorted; how many, or 0 if they do not fit.
    __device__ __noinline__ uint32_t list(uint32_t k);

    __device__ __noinline__ void sort(uint32_t listed);

    // How many of the first sorted tokens pass.
    __device__ __noinline__ uint32_t passing(uint32_t listed);

    // How many of the first sorted tokens TOP_P keeps, of a total mass; 0: that of these tokens.
    __device__ __noinline__ uint32_t top_p(const Stage& stage, uint32_t listed, uint64_t total);

    // The winner among the first tokens of the sorted list: in f32 first, as in `race`.
    __device__ __noinline__ Finalist race_listed(uint32_t listed);

    // ---- the mass before a token: nucleus.cuh ----

    // Whether a mass is below a share, in units of 2^-53, of a total.
    __device__ __forceinline__ static bool is_below(uint64_t mass, uint64_t share, uint64_t total) {
        const uint64_t high = mass >> 11, low = mass << 53;
        const uint64_t other_high = __umul64hi(share, total), other_low = share * total;
        return high < other_high || (high == other_high && low < other_low);
    }

    // Bounds of a mass between two sums of f32 powers, over all threads. A weight is rounded down: so many tokens may each have lost one.
    __device__ __noinline__ Bounds between(float least, float most);
    // The mass of the whole row, by the first pass; and the masses of its blocks, for `mass_before`.
    __device__ __noinline__ Bounds total_mass(uint32_t group, float scale);
    // The same, exact for the blocks that have nearly all of it.
    __device__ __noinline__ Bounds total_opened(float scale, uint64_t total);
    // The logit below which nothing can be in the nucleus, from the largest logits of the blocks alone.
    __device__ __noinline__ float bottom_of_nucleus(const Stage& stage, uint64_t total);
    // The mass before a token: from the largest logits and the masses of the blocks alone.
    __device__ __noinline__ Bounds mass_before(Key key, float scale, uint64_t total);
    // By opening what reaches the token, in f32.
    __device__ __noinline__ Bounds mass_opened(Key key, float scale);
    __device__ __noinline__ bool is_in_nucleus(const Stage& stage, Key key, Bounds& total);

    // ---- the draw ----

    // Reads the largest logit of every block into shared memory; the largest of all.
    __device__ __forceinline__ float load(const float* peaks, uint32_t pitch) {
        float top = negative_infinity();
        const uint32_t quads = room / 4, all = (vocabulary + BLOCK - 1) / BLOCK;
#pragma unroll 1
        for (uint32_t quad = threadIdx.x; quad < quads; quad += DRAW_THREADS) {
            float4 peak = make_float4(negative_infinity(), negative_infinity(), negative_infinity(), negative_infinity());
            if (4 * quad < pitch) peak = reinterpret_cast<const float4*>(peaks)[quad];
            // The row of peaks ends before a multiple of four does.
            if (4 * quad + 1 >= all) peak.y = negative_infinity();
            if (4 * quad + 2 >= all) peak.z = negative_infinity();
            if (4 * quad + 3 >= all) peak.w = negative_infinity();
            reinterpret_cast<float4*>(highest())[quad] = peak;
            top = fmaxf(top, largest(peak));
        }
        return largest_of_all(top);
    }

    // As many numbers as there are blocks, from device memory into shared memory, without being waited for.
    __device__ __forceinline__ void fetch(float* to, const float* from, uint32_t count) const {
#pragma unroll 1
        for (uint32_t quad = threadIdx.x; 4 * quad < count; quad += DRAW_THREADS) __pipeline_memcpy_async(reinterpret_cast<float4*>(to) + quad, reinterpret_cast<const float4*>(from) + quad, 16);
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
        const Task task = step.tasks[number];
        wait_for_the_one_before();
        uint32_t* const bad = step.bad + number;
        const uint32_t bad_token = *bad;
        // Under way together with the peaks.
        const uint64_t* const record = reinterpret_cast<const uint64_t*>(step.sequences + task.slot);
        const bool copies = threadIdx.x >= DRAW_THREADS - sizeof(Sequence) / 8;
        const uint64_t word_of = copies ? record[threadIdx.x - (DRAW_THREADS - sizeof(Sequence) / 8)] : 0;
        const uint64_t begin = uint64_t(number) * step.pitch;
        fetch(lucks(), step.lucks + begin, step.pitch);
        if (step.is_summed) {
            fetch(masses(), step.sums + begin, step.pitch);
            fetch(reinterpret_cast<float*>(work()), step.references + begin, (step.pitch + step.group - 1) / step.group);
        }
        __pipeline_commit();
        const float top = load(step.peaks + begin, step.pitch);
        if (copies) reinterpret_cast<uint64_t*>(&row)[threadIdx.x - (DRAW_THREADS - sizeof(Sequence) / 8)] = word_of;
        if (threadIdx.x == 0) {
            // For the next step.
            *bad = 0xffffffffu;
            place = {&row, task.mask, task.path, task.depth};
            slot = task.slot;
            summit = x_max = top;
            above = __uint_as_float(0x7f800000u);
            lowest = negative_infinity();
        }
        __pipeline_wait_prior(0);
        __syncthreads();
        if (!BARE) {
            if (threadIdx.x == 0) {
                adjustment = {task.mask, row.allowed, row.touched};
                is_bare = task.mask == nullptr && row.allowed == nullptr && row.touched == nullptr;
            }
            __syncthreads();
        }
        if (bad_token != 0xffffffffu) {
            const float x = widened(logits[bad_token]);
            return {bad_token, x == x ? INFINITE_LOGIT : NAN_LOGIT};
        }
        if (!(top > negative_infinity())) return {BARE ? 0xffffffffu : emptied_by(), NOTHING_LEFT};
        if (BARE) return {row.is_greedy ? leader().token : truncated(step.group), DRAWN};
        uint32_t token;
        Key last = key_end();
        if (row.is_greedy) {
            // Typical may take the first token away; every other truncation keeps it.
            if (!row.is_plain) last = cut();
            token = leader().token;
        } else if (row.is_plain && step.laws == nullptr) {
            token = step.is_chosen ? 0 : truncated(step.group);
        } else {
            last = cut();
            token = step.is_chosen || step.laws != nullptr ? leader().token : race(last + 1).token;
        }
        if (step.laws != nullptr) {
            write_law(step.laws + uint64_t(number) * vocabulary, row.is_greedy ? key_of(x_max, token) : last);
            return {token, DRAWN};
        }
        if (step.is_chosen) token = step.results[number].token;
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
    __device__ __noinline__ uint32_t truncated(uint32_t group) {
        // Where they stand; who stands before TOP_P leaves it the mass that it sees.
        const Stage *min_p = nullptr, *top_k = nullptr, *top_p_stage = nullptr;
#pragma unroll 1
        for (uint32_t i = 0; i < row.stages; i++) {
            const Stage* stage = &row.stage[i];
            if (stage->kind == MIN_P) min_p = stage;
            else if (stage->kind == TOP_K) top_k = stage;
            else top_p_stage = stage;
        }
        const bool min_p_first = top_p_stage == nullptr || min_p < top_p_stage, top_k_first = top_p_stage == nullptr || top_k < top_p_stage;
        // The mass that TOP_P finds: exact where others stand before it, else first between two bounds, which must be looked at before the memory is used.
        const bool is_exact = (top_k != nullptr && top_k_first) || (min_p != nullptr && min_p_first);
        Bounds total = {};
        if (top_p_stage != nullptr && !is_exact) total = total_mass(group, top_p_stage->scale);
        const Key end = key_end();
        if (top_k != nullptr && top_k->k <= FEW / 2 && (top_k_first || top_p_stage == nullptr)) {
            const uint32_t k = top_k->k, listed = gather(depth_ends(depth_of(k)));
            const float bottom = min_p != nullptr ? lowest_of(min_p->number) : negative_infinity();
            if (listed <= FEW) return race_few(listed, top_k->k, top_p_stage, min_p_first ? bottom : negative_infinity(), bottom);
        }
        uint32_t listed = top_k != nullptr && top_k->k <= LISTED / 2 ? list(top_k->k) : 0;
        if (listed != 0) {
            listed = min(listed, top_k->k);
            if (min_p != nullptr && min_p_first) {
                set_lowest(lowest_of(min_p->number));
                listed = passing(listed);
            }
            if (top_p_stage != nullptr) listed = top_p(*top_p_stage, listed, top_k_first ? 0 : census(end, top_p_stage->scale).mass);
            if (min_p != nullptr && !min_p_first) {
                set_lowest(lowest_of(min_p->number));
                listed = passing(listed);
            }
            return race_listed(listed).token;
        }
        const Key last = top_k != nullptr ? select(0.0f, top_k->k - 1, end) : end;
        if (top_p_stage == nullptr) {
            if (min_p != nullptr) set_lowest(lowest_of(min_p->number));
            return race(last + 1).token;
        }
        if (is_exact) {
            if (min_p != nullptr && min_p_first) set_lowest(lowest_of(min_p->number));
            total.least = total.most = census(top_k_first ? last : end, top_p_stage->scale).mass;
        }
        float bottom = min_p != nullptr ? lowest_of(min_p->number) : negative_infinity();
        // Few winners are rejected then.
        if (!is_exact) bottom = fmaxf(bottom, bottom_of_nucleus(*top_p_stage, total.most));
        set_lowest(bottom);
        Key before_this = last + 1;
#pragma unroll 1
        while (true) {
            const Finalist winner = race(before_this);
            before_this = key_of(winner.logit, winner.token);
            // What MIN_P removes is behind whatever it keeps, so the mass before a winner is the same with it and without.
            if (is_in_nucleus(*top_p_stage, before_this, total)) return winner.token;
        }
    }
};

#include "cut.cuh"
#include "list.cuh"
#include "nucleus.cuh"
#include "race.cuh"
#include "report.cuh"
#include "verify.cuh"

template <typename T, bool BARE>
__device__ __forceinline__ void draw_row(const Step& step) {
    __shared__ Draw<T, BARE> draw;
    const uint32_t number = blockIdx.x;
    if (threadIdx.x == 0) {
        draw.logits = static_cast<const T*>(step.logits) + int64_t(number) * step.stride;
        draw.vocabulary = step.vocabulary;
        draw.room = (step.pitch + ROUND_UP - 1) / ROUND_UP * ROUND_UP;
    }
    __syncthreads();
    const Result result = draw.draw(step, number);
    let_the_next_begin();
    if (threadIdx.x == 0) {
        step.results[number] = result;
        // A row with logprobs moves on when these are done.
        if (step.advances && result.status == DRAWN && draw.row.logprobs == 0) append(draw.row, step.sequences + draw.slot, result.token);
    }
}
