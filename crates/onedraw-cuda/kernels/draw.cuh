// The second pass: a token for every row, by one block of threads. It opens only the blocks of tokens that could change its answer.
//
// A draw goes through its code once, so the code is short and shared: what a function needs of the row lies in shared memory, and few are inlined.
#pragma once

#include "row.cuh"

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
    // A copy of the row's record: to look into device memory takes half a microsecond each time.
    Row row;
    const T* logits;
    // For each block: its largest logit, what that may gain by noise, and memory for a word; in device memory the sum of its weights.
    float *highest, *lucks;
    uint32_t* work;
    const float* sums;
    uint32_t vocabulary, blocks;
    float x_max, inverse;
    // The lowest logit that MIN_P keeps; -inf: everything.
    float lowest;
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

    // A logit as the mask leaves it; of a token past the vocabulary -inf.
    __device__ __forceinline__ float at(uint32_t token) const {
        if (token >= vocabulary) return negative_infinity();
        const uint32_t* mask = row.mask;
        if (mask != nullptr && !(mask[token / 32] >> (token % 32) & 1)) return negative_infinity();
        return widened(logits[token]);
    }

    __device__ __forceinline__ bool passes(float x) const { return x >= lowest; }

    // The lowest x with x - x_max >= threshold, in f64: the nearest f32, or its neighbour.
    __device__ __forceinline__ float lowest_of(double threshold) const {
        uint32_t place = descending(float(double(x_max) + threshold));
        while (!(double(logit_of_place(place)) - double(x_max) >= threshold)) place--;
        while (double(logit_of_place(place + 1)) - double(x_max) >= threshold && place + 1 <= descending(-3.402823466e+38f)) place++;
        return logit_of_place(place);
    }

    __device__ __forceinline__ Noise noise() const { return {row.seed, row.position, row.sequence, row.round}; }

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

    // Lists the blocks that hold something at least as high as `reach`; how many.
    __device__ __noinline__ uint32_t collect(float reach) {
        const uint32_t lane = threadIdx.x & 31;
        __syncthreads();
        if (threadIdx.x == 0) count = 0;
        __syncthreads();
#pragma unroll 1
        for (uint32_t start = threadIdx.x & ~31u; start < blocks; start += DRAW_THREADS) {
            const uint32_t own = start + lane;
            const bool is_in = own < blocks && highest[own] > negative_infinity() && highest[own] >= reach;
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

    // The k-th token of the order, or the end if there are not so many: by halving, where the list is too short.
    __device__ __noinline__ Key locate(uint32_t k) {
        Key low = 0, high = key_end();
#pragma unroll 1
        while (low < high) {
            const Key middle = low + (high - low) / 2;
            if (census(middle, 0.0f).count >= k) high = middle;
            else low = middle + 1;
        }
        return low;
    }

    // ---- the race ----

    __device__ __noinline__ Finalist scored(Key key) const {
        const uint32_t token = uint32_t(key), block = token / BLOCK;
        const float x = logit_of(key);
        uint32_t bits[3];
#pragma unroll 1
        for (uint32_t purpose = 0; purpose < 3; purpose++) {
            const uint32_t place = purpose == TOKEN ? token : block;
            bits[purpose] = word(words(noise(), Purpose(purpose), place / 4), place % 4);
        }
        const double minimum = exponential(bits[BLOCK_MINIMUM]) / 64.0, others = exponential(bits[TOKEN]);
        const double time = bits[BLOCK_LANE] >> 26 == token % BLOCK ? minimum : minimum + others;
        return {(double(x) - double(x_max)) * row.inverse - ln(time), token, x};
    }

    // The winner among the tokens before a key that pass. Half a warp scores a block, four tokens a lane, in f32; what could have won is scored again in f64.
    __device__ __noinline__ Finalist race(Key before) {
        // What the loop needs, in registers: shared memory would be read again after every write to it.
        const uint32_t lane = threadIdx.x & 31, warp = threadIdx.x >> 5, all = blocks, tokens = vocabulary, id_before = uint32_t(before);
        const float reach = logit_of(before), top = x_max, factor = inverse, bottom = lowest;
        const T* const row_logits = logits;
        const uint32_t* const mask = row.mask;
        const Noise own_noise = noise();
        const bool is_aligned = reinterpret_cast<uint64_t>(row_logits) % (4 * sizeof(T)) == 0;
        float *const bounds = reinterpret_cast<float*>(work), *const tallest = highest, *const gains = lucks;
        uint16_t* const list_of_blocks = opened;
        __syncthreads();
        if (threadIdx.x == 0) {
            lead = negative_infinity();
            count = 0;
            listed_blocks = 0;
        }
        // The highest bound of each half warp's blocks is opened first: then the lead is nearly the final one.
        float high = negative_infinity();
        uint32_t block = all;
#pragma unroll 1
        for (uint32_t start = threadIdx.x; start < all; start += EACH * DRAW_THREADS) {
#pragma unroll
            for (uint32_t j = 0; j < EACH; j++) {
                const uint32_t i = start + j * DRAW_THREADS;
                if (i >= all) continue;
                const float bound = tallest[i] >= reach ? (tallest[i] - top) * factor + gains[i] : negative_infinity();
                bounds[i] = bound;
                if (bound > high) {
                    high = bound;
                    block = i;
                }
            }
        }
        float half = high;
#pragma unroll
        for (int offset = 8; offset > 0; offset >>= 1) half = fmaxf(half, __shfl_xor_sync(ALL, half, offset));
        const uint32_t holders = __ballot_sync(ALL, high == half && high > negative_infinity()) >> (lane & 16) & 0xffff;
        const uint32_t theirs = __shfl_sync(ALL, block, (lane & 16) + (holders ? __ffs(holders) - 1 : 0));
        block = holders ? theirs : all;
        __syncthreads();
        uint32_t rest = 0, next = 2 * warp;
        bool is_first = true;
#pragma unroll 1
        while (true) {
            if (!is_first) {
                if (next >= rest) break;
                block = next + (lane >> 4) < rest ? list_of_blocks[next + (lane >> 4)] : all;
                next += 2 * WARPS;
                // The lead may have grown since.
                if (block < all && bounds[block] + MARGIN < lead) block = all;
                if (!__any_sync(ALL, block < all)) continue;
            }
            const uint32_t token = block * BLOCK + 4 * (lane & 15);
            float4 x = make_float4(negative_infinity(), negative_infinity(), negative_infinity(), negative_infinity());
            if (block < all) {
                if (is_aligned && token + 4 <= tokens) {
                    x = four(row_logits + token);
                } else {
                    if (token < tokens) x.x = widened(row_logits[token]);
                    if (token + 1 < tokens) x.y = widened(row_logits[token + 1]);
                    if (token + 2 < tokens) x.z = widened(row_logits[token + 2]);
                    if (token + 3 < tokens) x.w = widened(row_logits[token + 3]);
                }
            }
            const uint4 bits = words(own_noise, TOKEN, token / 4);
            const float luck = block < all ? gains[block] : 0.0f;
            const uint32_t first = __float_as_uint(luck) & LANE_BITS, allowed = mask != nullptr && token < tokens ? mask[token / 32] >> (token % 32) : 15;
            const float minimum = __expf(-luck);
            const auto score = [&](float x, uint32_t i, uint32_t bits) {
                const bool runs = x > negative_infinity() && x >= bottom && (allowed >> i & 1) && (x > reach || (x == reach && token + i < id_before));
                const float time = 4 * (lane & 15) + i == first ? minimum : minimum + rough_exponential(bits);
                return runs ? (x - top) * factor - __logf(time) : negative_infinity();
            };
            const float s0 = score(x.x, 0, bits.x), s1 = score(x.y, 1, bits.y), s2 = score(x.z, 2, bits.z), s3 = score(x.w, 3, bits.w);
            float best = fmaxf(fmaxf(s0, s1), fmaxf(s2, s3));
            const float own_best = best;
#pragma unroll
            for (int offset = 16; offset > 0; offset >>= 1) best = fmaxf(best, __shfl_xor_sync(ALL, best, offset));
            // Whoever writes last may write less: then less is pruned, and nothing wrongly.
            const float known = lead, bar = fmaxf(best - MARGIN, known) - MARGIN;
            if (lane == 0 && best - MARGIN > known) lead = best - MARGIN;
            if (own_best > negative_infinity() && own_best >= bar) {
                const auto keep = [&](float s, float x, uint32_t i) {
                    if (s > negative_infinity() && s >= bar) {
                        const uint32_t place = atomicAdd(&count, 1);
                        if (place < CANDIDATES) {
                            candidates[place] = key_of(x, token + i);
                            rough_scores[place] = s;
                        }
                    }
                };
                keep(s0, x.x, 0);
                keep(s1, x.y, 1);
                keep(s2, x.z, 2);
                keep(s3, x.w, 3);
            }
            if (is_first) {
                is_first = false;
                if ((lane & 15) == 0 && block < all) bounds[block] = negative_infinity();
                __syncthreads();
                // Then whatever could still win, all half warps at a time.
                const float low = lead - MARGIN;
#pragma unroll 1
                for (uint32_t start = threadIdx.x & ~31u; start < all; start += EACH * DRAW_THREADS) {
                    float bound[EACH];
#pragma unroll
                    for (uint32_t i = 0; i < EACH; i++) {
                        const uint32_t own = start + i * DRAW_THREADS + lane;
                        bound[i] = own < all ? bounds[own] : negative_infinity();
                    }
#pragma unroll
                    for (uint32_t i = 0; i < EACH; i++) {
                        if (bound[i] > negative_infinity() && bound[i] >= low) list_of_blocks[atomicAdd(&listed_blocks, 1)] = uint16_t(start + i * DRAW_THREADS + lane);
                    }
                }
                __syncthreads();
                rest = listed_blocks;
            }
        }
        __syncthreads();
        const uint32_t found = count;
        if (found <= 32) {
            // Most were ahead for a moment only: hardly ever does f32 leave two to tell apart.
            const float own_score = lane < found ? rough_scores[lane] : negative_infinity();
            float highest_score = own_score;
#pragma unroll
            for (int offset = 16; offset > 0; offset >>= 1) highest_score = fmaxf(highest_score, __shfl_xor_sync(ALL, highest_score, offset));
            const uint32_t close = __ballot_sync(ALL, lane < found && own_score + 2 * MARGIN >= highest_score);
            if (__popc(close) == 1) {
                const Key winner = candidates[__ffs(close) - 1];
                return {0.0, uint32_t(winner), logit_of(winner)};
            }
            // One warp: what all of them did would take as many times as long.
            if (warp == 0) {
                const Finalist winner = best_of_warp(close >> lane & 1 ? scored(candidates[lane]) : nobody());
                if (lane == 0) finalists[0] = winner;
            }
            __syncthreads();
            return finalists[0];
        }
        if (found <= CANDIDATES) return best(threadIdx.x < found ? scored(candidates[threadIdx.x]) : nobody());
        // Too many that are too near: all that run are scored.
        Finalist own = nobody();
        over(collect(reach), [&](float x, uint32_t token) {
            if (!(x > negative_infinity()) || !passes(x) || key_of(x, token) >= before) return;
            const Finalist other = scored(key_of(x, token));
            if (other.score > own.score || (other.score == own.score && other.token < own.token)) own = other;
        });
        return best(own);
    }

    // ---- the first tokens of the order, listed ----

    // How far below the best a logit is, in steps of a sixteenth of its distance.
    __device__ __forceinline__ uint32_t depth(float x) const {
        constexpr uint32_t LOWEST = (127 - 8) << 4;
        const uint32_t bits = __float_as_uint(x_max - x) >> 19;
        return bits <= LOWEST ? 0 : min(bits - LOWEST, 255u);
    }

    // Lists at least the first k tokens of the order, or all there are, sorted; how many, or 0 if they do not fit.
    __device__ __noinline__ uint32_t list(uint32_t k) {
        __syncthreads();
        if (threadIdx.x < 256) bins[threadIdx.x] = 0;
        if (threadIdx.x == 0) deepest = 255;
        __syncthreads();
#pragma unroll 1
        for (uint32_t block = threadIdx.x; block < blocks; block += DRAW_THREADS) {
            if (highest[block] > negative_infinity()) atomicAdd(&bins[depth(highest[block])], 1);
        }
        __syncthreads();
        // The first depth down to which k blocks reach: as many tokens do.
        {
            const uint32_t lane = threadIdx.x & 31;
            uint32_t upto = bins[threadIdx.x];
#pragma unroll
            for (int offset = 1; offset < 32; offset <<= 1) {
                const uint32_t other = __shfl_up_sync(ALL, upto, offset);
                if (lane >= offset) upto += other;
            }
            // The warps before: 32 bins each.
            uint32_t before = 0;
#pragma unroll 1
            for (uint32_t bin = lane; bin < (threadIdx.x & ~31u); bin += 32) before += bins[bin];
            before = __reduce_add_sync(ALL, before);
            if (before + upto >= k) atomicMin(&deepest, threadIdx.x);
        }
        __syncthreads();
        const uint32_t bottom = deepest;
        // The blocks that reach it: the lowest logit of that depth or a lower one of the same depth.
        const uint32_t lane = threadIdx.x & 31;
        __syncthreads();
        if (threadIdx.x == 0) count = 0;
        __syncthreads();
#pragma unroll 1
        for (uint32_t start = threadIdx.x & ~31u; start < blocks; start += DRAW_THREADS) {
            const uint32_t own = start + lane;
            const bool is_in = own < blocks && highest[own] > negative_infinity() && depth(highest[own]) <= bottom;
            const uint32_t in = __ballot_sync(ALL, is_in);
            if (in == 0) continue;
            uint32_t place = 0;
            if (lane == 0) place = atomicAdd(&count, __popc(in));
            place = __shfl_sync(ALL, place, 0) + __popc(in & ((1u << lane) - 1));
            if (is_in) work[place] = own;
        }
        __syncthreads();
        const uint32_t reached = count;
        __syncthreads();
        if (threadIdx.x == 0) count = 0;
        __syncthreads();
        over(reached, [&](float x, uint32_t token) {
            if (x > negative_infinity() && depth(x) <= bottom) {
                const uint32_t place = atomicAdd(&count, 1);
                if (place < LISTED) keys[place] = key_of(x, token);
            }
        });
        __syncthreads();
        const uint32_t listed = count;
        if (listed > LISTED) return 0;
        sort(listed);
        return listed;
    }

    __device__ __noinline__ void sort(uint32_t listed) {
        if (listed <= DRAW_THREADS) {
            // Each counts who is before it.
            const Key own = threadIdx.x < listed ? keys[threadIdx.x] : 0;
            uint32_t place = 0;
            if (threadIdx.x < listed) {
#pragma unroll 4
                for (uint32_t i = 0; i < listed; i++) place += keys[i] < own;
            }
            __syncthreads();
            if (threadIdx.x < listed) keys[place] = own;
            __syncthreads();
            return;
        }
        for (uint32_t i = listed + threadIdx.x; i < LISTED; i += DRAW_THREADS) keys[i] = ~0ull;
        __syncthreads();
#pragma unroll 1
        for (uint32_t size = 2; size <= LISTED; size <<= 1) {
#pragma unroll 1
            for (uint32_t stride = size >> 1; stride > 0; stride >>= 1) {
#pragma unroll 1
                for (uint32_t i = threadIdx.x; i < LISTED / 2; i += DRAW_THREADS) {
                    const uint32_t low = 2 * i - (i & (stride - 1)), high = low + stride;
                    const Key a = keys[low], b = keys[high];
                    if ((a > b) == ((low & size) == 0)) {
                        keys[low] = b;
                        keys[high] = a;
                    }
                }
                __syncthreads();
            }
        }
    }

    // How many of the first sorted tokens pass.
    __device__ __noinline__ uint32_t passing(uint32_t listed) {
        uint32_t kept = 0;
        for (uint32_t i = threadIdx.x; i < listed; i += DRAW_THREADS) kept += passes(logit_of(keys[i]));
        return uint32_t(sum(kept, 0).count);
    }

    // How many of the first sorted tokens TOP_P keeps, of a total mass; 0: that of these tokens.
    __device__ __noinline__ uint32_t top_p(const Stage& stage, uint32_t listed, uint64_t total) {
        const Softmax softmax = {x_max, stage.scale};
        // Each thread has tokens next to each other, so that a scan over threads is one over tokens.
        const uint32_t each = listed <= DRAW_THREADS ? 1 : LISTED / DRAW_THREADS, first = threadIdx.x * each, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
        uint64_t own = 0;
#pragma unroll 1
        for (uint32_t i = first; i < first + each && i < listed; i++) own += weight(softmax, logit_of(keys[i]));
        uint64_t upto = own;
#pragma unroll
        for (int offset = 1; offset < 32; offset <<= 1) {
            const uint64_t other = __shfl_up_sync(ALL, upto, offset);
            if (lane >= offset) upto += other;
        }
        __syncthreads();
        if (lane == 31) parts[warp].mass = upto;
        __syncthreads();
        uint64_t before = upto - own, all = 0;
#pragma unroll 1
        for (uint32_t i = 0; i < WARPS; i++) {
            before += i < warp ? parts[i].mass : 0;
            all += parts[i].mass;
        }
        if (total == 0) total = all;
        uint32_t kept = 0;
#pragma unroll 1
        for (uint32_t i = first; i < first + each && i < listed; i++) {
            kept += is_below(before, stage.share, total);
            before += weight(softmax, logit_of(keys[i]));
        }
        return uint32_t(sum(kept, 0).count);
    }

    // Whether a mass is below a share, in units of 2^-53, of a total.
    __device__ __forceinline__ static bool is_below(uint64_t mass, uint64_t share, uint64_t total) {
        const uint64_t high = mass >> 11, low = mass << 53;
        const uint64_t other_high = __umul64hi(share, total), other_low = share * total;
        return high < other_high || (high == other_high && low < other_low);
    }

    // The winner among the first tokens of the sorted list: in f32 first, as in `race`.
    __device__ __noinline__ Finalist race_listed(uint32_t listed) {
        __syncthreads();
        float high = negative_infinity();
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < listed; i += DRAW_THREADS) {
            const uint32_t token = uint32_t(keys[i]);
            const float luck = lucks[token / BLOCK], minimum = __expf(-luck);
            const uint32_t bits = word(words(noise(), TOKEN, token / 4), token % 4);
            const float time = (__float_as_uint(luck) & LANE_BITS) == token % BLOCK ? minimum : minimum + rough_exponential(bits);
            const float score = (logit_of(keys[i]) - x_max) * inverse - __logf(time);
            listed_scores[i] = score;
            high = fmaxf(high, score);
        }
#pragma unroll
        for (int offset = 16; offset > 0; offset >>= 1) high = fmaxf(high, __shfl_xor_sync(ALL, high, offset));
        if ((threadIdx.x & 31) == 0) tops[threadIdx.x >> 5] = high;
        if (threadIdx.x == 0) count = 0;
        __syncthreads();
        high = tops[threadIdx.x & (WARPS - 1)];
#pragma unroll
        for (int offset = WARPS / 2; offset > 0; offset >>= 1) high = fmaxf(high, __shfl_xor_sync(ALL, high, offset));
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < listed; i += DRAW_THREADS) {
            if (listed_scores[i] + 2 * MARGIN >= high) {
                const uint32_t place = atomicAdd(&count, 1);
                if (place < CANDIDATES) candidates[place] = keys[i];
            }
        }
        __syncthreads();
        const uint32_t found = count;
        if (found == 1) return {0.0, uint32_t(candidates[0]), logit_of(candidates[0])};
        Finalist own = nobody();
        if (found <= CANDIDATES) {
            if (threadIdx.x < found) own = scored(candidates[threadIdx.x]);
        } else {
#pragma unroll 1
            for (uint32_t i = threadIdx.x; i < listed; i += DRAW_THREADS) {
                const Finalist other = scored(keys[i]);
                if (other.score > own.score || (other.score == own.score && other.token < own.token)) own = other;
            }
        }
        return best(own);
    }

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

    // Reads the record and the peaks. What is wrong with the row, or what it draws.
    __device__ __forceinline__ Result draw(const Row* record, const Peak* peaks, uint32_t* bad) {
        float top = negative_infinity();
        const uint32_t bad_token = *bad;
        if (threadIdx.x < sizeof(Row) / 8) reinterpret_cast<uint64_t*>(&row)[threadIdx.x] = reinterpret_cast<const uint64_t*>(record)[threadIdx.x];
        const uint32_t all = blocks;
        float *const tallest = highest, *const gains = lucks;
#pragma unroll 1
        for (uint32_t start = threadIdx.x; start < all; start += EACH * DRAW_THREADS) {
            // All reads are under way before the first is waited for.
            float2 peak[EACH];
#pragma unroll
            for (uint32_t i = 0; i < EACH; i++) {
                const uint32_t block = start + i * DRAW_THREADS;
                peak[i] = block < all ? *reinterpret_cast<const float2*>(&peaks[block]) : make_float2(negative_infinity(), 0.0f);
            }
#pragma unroll
            for (uint32_t i = 0; i < EACH; i++) {
                const uint32_t block = start + i * DRAW_THREADS;
                if (block < all) {
                    tallest[block] = peak[i].x;
                    gains[block] = peak[i].y;
                }
                top = fmaxf(top, peak[i].x);
            }
        }
#pragma unroll
        for (int offset = 16; offset > 0; offset >>= 1) top = fmaxf(top, __shfl_xor_sync(ALL, top, offset));
        if ((threadIdx.x & 31) == 0) tops[threadIdx.x >> 5] = top;
        __syncthreads();
        // For the next step.
        if (threadIdx.x == 0) *bad = 0xffffffffu;
        if (bad_token != 0xffffffffu) {
            const float x = widened(logits[bad_token]);
            return {bad_token, x == x ? INFINITE_LOGIT : NAN_LOGIT};
        }
        top = tops[threadIdx.x & (WARPS - 1)];
#pragma unroll
        for (int offset = WARPS / 2; offset > 0; offset >>= 1) top = fmaxf(top, __shfl_xor_sync(ALL, top, offset));
        if (!(top > negative_infinity())) return {0, NOTHING_LEFT};
        if (threadIdx.x == 0) {
            x_max = top;
            inverse = float(row.inverse);
            lowest = negative_infinity();
        }
        __syncthreads();
        if (row.is_greedy) {
            Finalist first = nobody();
            over(collect(top), [&](float x, uint32_t token) {
                if (x == top && token < first.token) first = {0.0, token, x};
            });
            return {best(first).token, DRAWN};
        }
        return {truncated(), DRAWN};
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
                set_lowest(lowest_of(min_p->threshold));
                listed = passing(listed);
            }
            if (nucleus != nullptr) listed = top_p(*nucleus, listed, top_k_first ? 0 : census(end, nucleus->scale).mass);
            if (min_p != nullptr && !min_p_first) {
                set_lowest(lowest_of(min_p->threshold));
                listed = passing(listed);
            }
            return race_listed(listed).token;
        }
        Key last = top_k != nullptr ? locate(top_k->k) : end;
        uint64_t total = 0, least = 0, most = ~0ull;
        if (nucleus != nullptr) {
            // The mass that it finds: exact where others stand before it, else first between two bounds.
            if (min_p != nullptr && min_p_first) set_lowest(lowest_of(min_p->threshold));
            if ((top_k != nullptr && top_k_first) || (min_p != nullptr && min_p_first)) {
                total = census(top_k != nullptr && top_k_first ? last : end, nucleus->scale).mass;
            } else {
                estimate(nucleus->scale, least, most);
            }
        }
        if (min_p != nullptr) set_lowest(lowest_of(min_p->threshold));
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
                    if (min_p != nullptr) set_lowest(lowest_of(min_p->threshold));
                }
            }
            if (total != 0 && is_below(mass, nucleus->share, total)) return winner.token;
            before = key;
        }
    }
};
