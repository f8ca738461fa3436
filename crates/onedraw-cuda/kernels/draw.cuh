// The second pass: a token for every row, by one block of threads. It opens only the blocks of tokens that could change its answer.
//
// A draw goes through its code once, so the code is short and shared: what a function needs of the row lies in shared memory, and few are inlined.
#pragma once

#include "edit.cuh"
#include "history.cuh"
#include "skyline.cuh"

constexpr uint32_t DRAW_THREADS = 512;
constexpr uint32_t WARPS = DRAW_THREADS / 32;
constexpr uint32_t HALVES = 2 * WARPS;
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
// Blocks that a row has at most (src/launch.rs).
constexpr uint32_t MOST_BLOCKS = 14336;
// The table of edited tokens: entries are linked by their blocks, those of every so many blocks together. A link is a token and the entry that follows.
constexpr uint32_t HEADS = LINKED > 0 ? 2048 : 4, LINK_SHIFT = 20, TOKEN_BITS = (1u << LINK_SHIFT) - 1, NONE = 2047;
static_assert(MOST_BLOCKS * BLOCK <= TOKEN_BITS && TABULATED <= NONE, "a link is a word");
static_assert(TABULATED == EDITED_EACH * DRAW_THREADS, "a thread links so many");
static_assert(MOST_BLOCKS / 32 * sizeof(uint32_t) <= (LISTED - TABULATED) * sizeof(Key), "bits behind the entries");
static_assert(CANDIDATES <= DRAW_THREADS && sizeof(Sequence) / 8 <= DRAW_THREADS, "a thread each");
// Depths below the best logit are sixteenths of an octave, from 2^-8 on.
constexpr uint32_t DEPTH_LOWEST = (127 - 8) << 4;
constexpr uint32_t DEPTHS = 256;
static_assert(DEPTHS <= DRAW_THREADS, "a thread each");

extern __shared__ float memory[];

struct Finalist {
    double score;
    uint32_t token;
    float logit;
};

struct bool4 {
    bool x, y, z, w;
};

// What a mass is at least, and at most.
struct Bounds {
    uint64_t least, most;
};

// How many tokens, and how much they weigh.
struct Census {
    uint64_t count, mass;
};

// What rows may have. The less it is, the shorter the code and the more of them are drawn beside each other.
enum Rows {
    // No masks and no edits; plain stages, and nothing is reported of what they leave.
    BARE,
    // Masks and edits, of no more tokens than the table holds; the rest as above.
    EDITED,
    // The same with edits of any number of tokens, and no table.
    CROWDED,
    // Everything.
    ANY,
};

template <typename T, Rows ROWS>
struct Draw {
    // Copies of what is asked and of the sequence: to look into device memory takes half a microsecond each time.
    Step asked;
    uint32_t number;
    Sequence row;
    Place place;
    uint32_t slot;
    Adjustment adjustment;
    const T* logits;
    uint32_t vocabulary;
    // Blocks that there is room for; those past the vocabulary hold nothing.
    uint32_t room;
    // The largest logit as masks leave the row, and that of what is left.
    float summit, x_max;
    // What is left lies below `above` and not below `lowest`.
    float above, lowest;
    // Whether there are no masks and no edits.
    bool is_bare;
    // The last token that is kept, and the drawn one.
    Key last, drawn;
    // What one thread found out for all.
    Key found_key;
    float found_logit;
    uint64_t found_number;
    // The order of a score that some token has, in f32 and less its margin: what is lower cannot win.
    int lead;
    // The race is among the tokens before this one.
    Key before;
    uint32_t count, others;
    // Where TOP_P is asked after: the mass that it sees, 0 at most as long as that is not known.
    Bounds total;
    // What MIN_P leaves: no logit that is lower. Before: where TOP_P comes after it.
    float bottom, bottom_before;
    // Where the first pass wrote the references of the row's groups, and of how many blocks a group is.
    const float* references;
    uint32_t pitch, group;
    // What the warps found out, for all.
    uint32_t tallies[2][WARPS];
    // What blocks have at each depth; nothing at first.
    alignas(16) uint32_t depths[DEPTHS];
    Census parts[WARPS];
    Finalist finalists[WARPS];
    float tops[WARPS];
    Key candidates[CANDIDATES];
    float rough_scores[CANDIDATES];
    alignas(16) Key keys[LISTED];
    // No more of them are raced than half the list.
    float listed_scores[LISTED / 2];
    // The table of the tokens that edits may change, and what they make of them.
    alignas(16) uint32_t heads[ROWS == EDITED || ROWS == ANY ? HEADS : 1];
    uint32_t links[(ROWS == EDITED || ROWS == ANY) && LINKED > 0 ? LINKED : 1];
    float edited_logits[(ROWS == EDITED || ROWS == ANY) && LINKED > 0 ? LINKED : 1];
    // Without it: a bit for each block that has such a token.
    uint32_t edited_blocks[ROWS == CROWDED || ROWS == ANY ? MOST_BLOCKS / 32 : 1];

    // For each block: its largest logit; what that may gain by noise; its mass, as f32; and memory for a word.
    __device__ __forceinline__ float* highest() const { return memory; }
    __device__ __forceinline__ float* lucks() const { return memory + room; }
    __device__ __forceinline__ float* masses() const { return memory + 2 * room; }
    __device__ __forceinline__ uint32_t* work() const { return reinterpret_cast<uint32_t*>(memory + 3 * room); }

    // A logit as masks and edits leave it; of a token past the vocabulary -inf.
    __device__ __forceinline__ float at(uint32_t token) const {
        if (token >= vocabulary) return negative_infinity();
        const float x = one(logits + token);
        if (ROWS == BARE || is_bare) return x;
        if (!is_tabulated()) return Adjustment::adjusted(place, adjustment.touched, token, x);
        return place.allows(token) ? tabulated(token, x) : negative_infinity();
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

    // Two sums over all threads, which each of them gets.
    __device__ __forceinline__ uint2 tallied(uint2 own) {
        const uint32_t lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
        own = make_uint2(__reduce_add_sync(ALL, own.x), __reduce_add_sync(ALL, own.y));
        __syncthreads();
        if (lane < 2) tallies[lane][warp] = lane == 0 ? own.x : own.y;
        __syncthreads();
        const bool is_one = lane < WARPS;
        return make_uint2(__reduce_add_sync(ALL, is_one ? tallies[0][lane & (WARPS - 1)] : 0), __reduce_add_sync(ALL, is_one ? tallies[1][lane & (WARPS - 1)] : 0));
    }

    // The sum over all threads of numbers below 2^45, which each of them gets. Sums of 32 bits are one instruction.
    __device__ __forceinline__ uint64_t amount(uint64_t own) {
        constexpr uint32_t HALF = 22;
        const uint32_t lane = threadIdx.x & 31;
        own = (uint64_t(__reduce_add_sync(ALL, uint32_t(own >> HALF))) << HALF) + __reduce_add_sync(ALL, uint32_t(own) & ((1u << HALF) - 1));
        __syncthreads();
        if (lane == 0) parts[threadIdx.x >> 5].mass = own;
        __syncthreads();
        own = lane < WARPS ? parts[lane].mass : 0;
        return (uint64_t(__reduce_add_sync(ALL, uint32_t(own >> HALF))) << HALF) + __reduce_add_sync(ALL, uint32_t(own) & ((1u << HALF) - 1));
    }

    // ---- over blocks ----

    // Lists the blocks of which `flags` has a bit set, the four of a vector; how many. There are no `others` then. Few are, most often: whoever has one takes its place by itself.
    template <typename Flags>
    __device__ __forceinline__ uint32_t collect_fours(Flags flags) {
        uint32_t* const listed = work();
        __syncthreads();
        if (threadIdx.x == 0) count = others = 0;
        __syncthreads();
#pragma unroll 1
        for (uint32_t quad = threadIdx.x; quad < room / 4; quad += DRAW_THREADS) {
            const uint32_t own = flags(quad);
            if (own == 0) continue;
            uint32_t place = atomicAdd(&count, __popc(own));
#pragma unroll
            for (uint32_t i = 0; i < 4; i++) {
                if (own >> i & 1) listed[place++] = 4 * quad + i;
            }
        }
        __syncthreads();
        return count;
    }

    // Lists the blocks for whose number in an array `reaches` is true; how many.
    template <typename Reaches>
    __device__ __forceinline__ uint32_t collect_where(const float* numbers, Reaches reaches) {
        return collect_fours([=](uint32_t quad) {
            const float4 four = reinterpret_cast<const float4*>(numbers)[quad];
            return uint32_t(reaches(four.x)) | uint32_t(reaches(four.y)) << 1 | uint32_t(reaches(four.z)) << 2 | uint32_t(reaches(four.w)) << 3;
        });
    }

    __device__ __noinline__ uint32_t collect(float reach) {
        return collect_where(highest(), [reach](float top) { return (top >= reach) & (top > negative_infinity()); });
    }

    // Four tokens of the row as it came; -inf past the vocabulary.
    __device__ __forceinline__ float4 four_at(const T* row_logits, uint32_t token, uint32_t tokens) const {
        if (reinterpret_cast<uint64_t>(row_logits) % (4 * sizeof(T)) == 0 && token + 4 <= tokens) return four(row_logits + token);
        const float low = negative_infinity();
        return make_float4(token < tokens ? one(row_logits + token) : low, token + 1 < tokens ? one(row_logits + token + 1) : low, token + 2 < tokens ? one(row_logits + token + 2) : low,
                           token + 3 < tokens ? one(row_logits + token + 3) : low);
    }

    // Goes over the first `listed` blocks of the list, one for each half of a warp and AT_ONCE of them together: `each(x, start)`, where x[i] are four tokens as the row
    // came of the block at `start + i * HALVES` of the list, if there is one, each lane's after those of the lane before.
    template <uint32_t AT_ONCE, typename Each>
    __device__ __forceinline__ void over_fours(uint32_t listed, Each each) {
        const uint32_t lane = threadIdx.x & 31, tokens = vocabulary;
        const T* const row_logits = logits;
#pragma unroll 1
        for (uint32_t start = threadIdx.x / 16; start - (lane >> 4) < listed; start += AT_ONCE * HALVES) {
            float4 x[AT_ONCE];
#pragma unroll
            for (uint32_t i = 0; i < AT_ONCE; i++) {
                const uint32_t of = start + i * HALVES;
                x[i] = four_at(row_logits, of < listed ? work()[of] * BLOCK + 4 * (lane & 15) : tokens, tokens);
            }
            each(x, start);
        }
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

    // Four tokens of the block at a place of the list, as masks and edits leave them.
    __device__ __forceinline__ void adjust(float4& x, uint32_t of, uint32_t listed) const {
        const uint32_t token = of < listed ? work()[of] * BLOCK + 4 * (threadIdx.x & 15) : vocabulary;
        if (token < vocabulary) settle(x, token);
    }

    // Four tokens as masks and edits leave them.
    __device__ __forceinline__ void settle(float4& x, uint32_t token) const {
        adjustment.apply_masks(x, token);
        if (!is_tabulated()) {
            if (edited_blocks[token / BLOCK / 32] >> token / BLOCK % 32 & 1) x = edited_four(x, token);
            return;
        }
        // All lanes of a block go the same way.
        over_linked(token, [&](uint32_t other, uint32_t entry) {
            if (other / 4 != token / 4) return;
            const uint32_t i = other % 4;
            const float v = edited_logits[entry];
            x = make_float4(i == 0 ? v : x.x, i == 1 ? v : x.y, i == 2 ? v : x.z, i == 3 ? v : x.w);
        });
    }

    // Goes over the blocks that reach a key: `each(x, is_before)` of four tokens, and which of them come before it.
    template <typename Each>
    __device__ __forceinline__ void before_key(Key key, Each each) {
        constexpr uint32_t AT_ONCE = ROWS == BARE ? 8 : 4;
        // Where logits are equal the lower id comes first: a logit as high as the key's is enough there, and elsewhere it takes the next one.
        const float at_key = logit_of(key), after = logit_of_place(uint32_t(key >> 32) - 1);
        const uint32_t listed = collect(at_key), id = uint32_t(key);
        over_fours<AT_ONCE>(listed, [&](float4 (&x)[AT_ONCE], uint32_t start) {
#pragma unroll
            for (uint32_t i = 0; i < AT_ONCE; i++) {
                const uint32_t of = start + i * HALVES, token = (of < listed ? work()[of] : 0) * BLOCK + 4 * (threadIdx.x & 15);
                if (ROWS != BARE && !is_bare) adjust(x[i], of, listed);
                const auto is_before = [=](float x, uint32_t token) { return x >= (token < id ? at_key : after); };
                each(x[i], bool4{is_before(x[i].x, token), is_before(x[i].y, token + 1), is_before(x[i].z, token + 2), is_before(x[i].w, token + 3)});
            }
        });
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

    // ---- MIN_P, TOP_K and TOP_P in a race: truncate.cuh ----

    // TOP_P, or null.
    __device__ __forceinline__ const Stage* nucleus() const { return row.nucleus < STAGES ? &row.stage[row.nucleus] : nullptr; }
    // Whether TOP_P needs the exact mass of what it sees, since the first pass has no bounds of it: it does not stand first, or these do not hold.
    __device__ __forceinline__ bool is_unbounded() const { return row.nucleus != 0 || total.most == 0; }

    // The winner of the race among what all stages keep.
    __device__ __noinline__ uint32_t truncated();
    // With the first k tokens listed in their order; 0xffffffff if they do not fit.
    __device__ __noinline__ uint32_t race_first();
    // A race of all that may be kept, as often as the winner is not.
    __device__ __noinline__ uint32_t race_all(float reach);

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

    __device__ __noinline__ Key cut_nucleus(const Stage& stage);

    // Finds the last token that all stages keep; `above` and `lowest` say the rest.
    __device__ __noinline__ void cut();

    // ---- what is reported: report.cuh, tell.cuh ----

    // Of what is left of a row.
    __device__ __noinline__ void report(uint32_t token);
    // Lists the best tokens, sorted: so many at least, or all there are.
    __device__ __noinline__ uint32_t best_listed(uint32_t wanted);
    // Of a row as it came: its best tokens, so many at least, listed before anything is drawn; how many are known.
    __device__ __forceinline__ uint32_t look(const Step& step, const Task& task, uint32_t wanted);
    // And what is said of the first of them once a token is drawn and the row's mass is known.
    __device__ __forceinline__ void tell(const Step& step, uint32_t listed, uint32_t known, bool is_logits, uint32_t token, uint64_t mass);
    __device__ __noinline__ uint32_t tokens_before(Key key);

    // ---- edits of single tokens: repair.cuh ----

    // Whether the table has room for all tokens that an edit may change, and whether they are there.
    __device__ __forceinline__ bool fits() const { return row.listed + place.depth <= LINKED; }
    __device__ __forceinline__ bool is_tabulated() const { return ROWS == EDITED || (ROWS == ANY && fits()); }
    // Until blocks are repaired: the entries of the table as the first pass left them.
    __device__ __forceinline__ float2* entries() { return reinterpret_cast<float2*>(keys); }
    // And a bit for each block that lost its best token. Such blocks are listed, `others` of them.
    __device__ __forceinline__ uint32_t* lost() { return reinterpret_cast<uint32_t*>(keys + TABULATED); }
    // `each(other, entry)` for the entries of the table that may be of a token's block.
    template <typename Each>
    __device__ __forceinline__ void over_linked(uint32_t token, Each each) const {
#pragma unroll 1
        for (uint32_t entry = heads[token / BLOCK % HEADS]; entry != NONE;) {
            const uint32_t link = links[entry];
            each(link & TOKEN_BITS, entry);
            entry = link >> LINK_SHIFT;
        }
    }
    // What edits make of a token: x, if it is not in the table.
    __device__ __forceinline__ float tabulated(uint32_t token, float x) const {
        over_linked(token, [&](uint32_t other, uint32_t entry) { x = other == token ? edited_logits[entry] : x; });
        return x;
    }
    // What edits make of four tokens, without a table.
    __device__ __noinline__ float4 edited_four(float4 x, uint32_t token) const {
        adjustment.apply(x, token, place, adjustment.word(token));
        return x;
    }
    // Whether a token of the text may be changed already.
    __device__ __forceinline__ Touched is_touched(uint32_t token) const {
        if (!is_tabulated() || adjustment.touched == nullptr) return NOBODY_KNOWS;
        Touched found = IS_NEW;
        over_linked(token, [&](uint32_t other, uint32_t) { found = other == token ? IS_TOUCHED : found; });
        return found;
    }
    // Links the tokens that a sequence lists, of which a thread has a few, and those of a draft. It needs nothing of the first pass.
    __device__ __noinline__ void link(uint32_t first, uint32_t second, uint32_t third);
    // A token's logit is another than the first pass saw: what that does to its block.
    __device__ __forceinline__ void change(uint32_t token, float x, float edited);
    // All tokens that the table links.
    __device__ __noinline__ void change_listed();
    // All tokens that an edit may change, without a table.
    __device__ __noinline__ void change_touched();
    // Looks at the blocks again that lost their best token.
    __device__ __noinline__ void repair();
    // And their masses, in units of what the best weighs.
    __device__ __noinline__ void repair_masses(float scale);

    // ---- verification: verify.cuh ----

    // What is drawn from: the probability of every token, those that go being 0.
    __device__ __noinline__ void write_law(double* law, Key last);

    // ---- the race: race.cuh ----

    __device__ __noinline__ Finalist scored(Key key) const;

    // Scores the tokens of a block, one for each half of a warp, in f32: half a warp has four tokens a lane. What could have won is kept.
    __device__ __forceinline__ void open(uint32_t block);

    // The winner among the tokens before a key that pass.
    __device__ __noinline__ Finalist race(Key end);

    // The winner among the candidates; where these were too many, among all tokens of the race.
    __device__ __noinline__ Finalist decided();

    // ---- the first tokens of the order, listed: list.cuh ----

    // How far below the best a logit is, in steps of a sixteenth of its distance.
    __device__ __forceinline__ uint32_t depth(float x) const {
        const uint32_t bits = __float_as_uint(x_max - x) >> 19;
        return bits <= DEPTH_LOWEST ? 0 : min(bits - DEPTH_LOWEST, 255u);
    }

    // The distance at which a depth ends.
    __device__ __forceinline__ static float depth_ends(uint32_t depth) { return depth >= 255 ? __uint_as_float(0x7f800000u) : __uint_as_float((DEPTH_LOWEST + depth + 1) << 19); }

    // Empties what blocks have at each depth.
    __device__ __forceinline__ void clear_depths() {
        __syncthreads();
        if (threadIdx.x < DEPTHS) depths[threadIdx.x] = 0;
        __syncthreads();
    }

    // The depth down to which there is so much; the last if there is less.
    __device__ __noinline__ uint32_t depth_with(uint32_t enough);

    // A depth down to which k blocks reach at least, and few more.
    __device__ __noinline__ uint32_t depth_of(uint32_t k);

    // Lists the tokens that are nearer to the best logit than so, unsorted; how many there are.
    __device__ __noinline__ uint32_t gather(float distance);

    // A token's score in f32.
    __device__ __forceinline__ float rough_score(uint32_t token, float x, float luck) const {
        const float minimum = power_of(luck * -1.44269504f), later = minimum + rough_exponential(word(words(noise(), TOKEN, token / 4), token % 4));
        return (x - x_max) * float(row.inverse) - rough_ln((__float_as_uint(luck) & LANE_BITS) == token % BLOCK ? minimum : later);
    }

    // Of few listed tokens, unsorted, with all that come before them: the winner among those that the stages keep.
    // 0xffffffff if the bounds of the total leave it open.
    __device__ __noinline__ uint32_t race_few(uint32_t listed);

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

    // Bounds of a mass that was summed in f32 powers, in units of 2^-32 of the best token's weight. A weight is rounded down: so many tokens may each have lost one.
    __device__ __forceinline__ Bounds around(uint64_t sum) const {
        const uint64_t mass = sum << 11, error = (mass >> 14) + vocabulary;
        // Each thread rounded down.
        return {mass > error ? mass - error : 0, mass + error + (uint64_t(DRAW_THREADS) << 12)};
    }
    __device__ __forceinline__ static uint64_t units(float mass) { return __float2ull_rz(mass * 0x1p32f); }
    // The mass of the whole row, by the first pass; and the masses of its blocks, for `mass_before`. Nothing at most: the first pass cannot say.
    __device__ __noinline__ Bounds total_mass(float scale);
    // The same, exact for the blocks that have nearly all of it.
    __device__ __noinline__ Bounds total_opened(float scale);
    // Adds what the best tokens of four blocks weigh at their depths, those that are heavy or the others.
    __device__ __forceinline__ void add_best(uint32_t quad, float scale, bool heavy);
    // How far below the best logit the nucleus can reach, from the largest logits of the blocks alone; +inf if they do not say.
    __device__ __noinline__ float reach_of_nucleus();
    // The mass before a token: from the largest logits and the masses of the blocks alone.
    __device__ __noinline__ Bounds mass_before(Key key, float scale);
    // By opening what reaches the token, in f32.
    __device__ __noinline__ Bounds mass_opened(Key key, float scale);
    __device__ __noinline__ bool is_in_nucleus(Key key);

    __device__ __forceinline__ void set_total(Bounds value) {
        __syncthreads();
        if (threadIdx.x == 0) total = value;
        __syncthreads();
    }

    // ---- a row from its beginning to its end: row.cuh ----

    // What needs nothing of the first pass, which has waited for the step before: copies of what is asked, and the links of edited tokens.
    // Whether the form is one for this row.
    __device__ __forceinline__ bool prepare(const Step& step, const Task& task);
    // What is wrong with the row, or what it draws. UNFIT: nothing is done yet, since the form is not one for it.
    __device__ __forceinline__ Result draw(const Step& step);
    // Draws a row and writes what comes of it; whether the form is one for it.
    __device__ __forceinline__ bool finish(const Step& step);
    // The edit that took the last token: the first after which nothing is alive; 0xffffffff if nothing was to begin with.
    __device__ __noinline__ uint32_t emptied_by() const;

    // The largest logit of every block into shared memory, without being waited for; -inf where there is none.
    __device__ __forceinline__ void fetch_peaks(float* to, const float* peaks, uint32_t pitch) const {
        fetch(to, peaks, pitch);
        const float low = negative_infinity();
#pragma unroll 1
        for (uint32_t quad = pitch / 4 + threadIdx.x; quad < room / 4; quad += DRAW_THREADS) reinterpret_cast<float4*>(to)[quad] = make_float4(low, low, low, low);
    }

    // As many numbers as there are blocks, from device memory into shared memory, without being waited for.
    __device__ __forceinline__ void fetch(float* to, const float* from, uint32_t count) const {
#pragma unroll 1
        for (uint32_t quad = threadIdx.x; 4 * quad < count; quad += DRAW_THREADS) __pipeline_memcpy_async(reinterpret_cast<float4*>(to) + quad, reinterpret_cast<const float4*>(from) + quad, 16);
    }

    // Whether logprobs of the row as it came are asked for: `tell` writes them.
    __device__ __forceinline__ bool is_raw() const { return row.logprobs > 0 && row.logprobs_mode <= RAW_LOGITS; }

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
};

#include "cut.cuh"
#include "list.cuh"
#include "nucleus.cuh"
#include "race.cuh"
#include "repair.cuh"
#include "report.cuh"
#include "row.cuh"
#include "tell.cuh"
#include "truncate.cuh"
#include "verify.cuh"
