// The first tokens of the order, listed, and what truncations keep of them. Part of draw.cuh.
//
// The naive loop:
//
//     sort all tokens by (logit descending, id ascending)
//     take the first k; rank[i] = i, mass before[i] = the sum of the weights of the tokens before it
//
// What this code does differently:
//
// 1. A distance below the best logit is found within which the first k tokens lie, from the peaks of the
//    blocks alone: their depths are counted in a histogram of 256 (`depth_of`, `depth_with`).
// 2. Only blocks whose peak is nearer than that are read, and their tokens that are nearer are listed
//    (`gather`).
// 3. A list of SHORT_LIST tokens or fewer is not sorted. Each token is compared with all others, by one to
//    eight threads, which gives its rank and the mass before it; the tokens that all stages keep race at
//    once, in f32 first (`race_few`).
// 4. Longer lists are sorted, by counting up to 512 keys and by a bitonic network up to LIST_CAPACITY
//    (`sort`).
//
// Why this is exact:
//
// - If k blocks have their peaks at a depth of d or nearer, at least k tokens do, so the k-th token is not
//   farther (1). The depth and the distance both come from the rounded difference x_max - x; rounding is
//   monotone, so a larger logit never has a larger difference, and what is listed is a prefix of the order:
//   with a token, every token of a larger or equal logit is listed.
// - So rank, mass before a token and the total up to a token are those of the whole row (2, 3), and they are
//   integers.
// - Keys are distinct, so sorting has one result (4).
// - f32 scores decide only where they differ by more than two margins, as in race.cuh.
#pragma once

#include "draw.cuh"

template <typename T, Rows ROWS>
__device__ __noinline__ uint32_t Draw<T, ROWS>::depth_with(uint32_t enough) {
    // Every warp finds it by itself, eight depths per lane: sums of eight, then a prefix sum over the lanes.
    const uint32_t lane = threadIdx.x & 31;
    const uint4 near = reinterpret_cast<const uint4*>(depth_histogram)[2 * lane], far = reinterpret_cast<const uint4*>(depth_histogram)[2 * lane + 1];
    const uint32_t own[8] = {near.x, near.y, near.z, near.w, far.x, far.y, far.z, far.w};
    uint32_t sum = 0;
#pragma unroll
    for (uint32_t i = 0; i < 8; i++) sum += own[i];
    uint32_t upto = sum;
#pragma unroll
    for (int offset = 1; offset < 32; offset <<= 1) {
        const uint32_t other = __shfl_up_sync(ALL_LANES, upto, offset);
        if (lane >= offset) upto += other;
    }
    uint32_t so_far = upto - sum, depth = 8 * lane;
#pragma unroll
    for (uint32_t i = 0; i < 8; i++) {
        so_far += own[i];
        depth += so_far < enough;
    }
    const uint32_t holders = __ballot_sync(ALL_LANES, upto >= enough);
    return holders == 0 ? DEPTHS - 1 : __shfl_sync(ALL_LANES, depth, __ffs(holders) - 1);
}

template <typename T, Rows ROWS>
__device__ __noinline__ uint32_t Draw<T, ROWS>::depth_of(uint32_t k) {
    // Where k is small beside the number of blocks, most of the first k blocks are in vectors of their own,
    // and counting only the best block of each vector of four gives a depth that is hardly lower. It is never
    // too near: fewer blocks are counted.
    const bool is_few = k <= pitch / 16;
    // Counting by ballots instead of atomics was 0.9 us slower (bench/results/2026-11-16-cuda.md).
    const auto add = [&](float x) {
        if (x > negative_infinity()) atomicAdd(&depth_histogram[depth(x)], 1);
    };
#pragma unroll 1
    for (uint32_t quad = threadIdx.x; quad < padded_blocks / 4; quad += DRAW_THREADS) {
        const float4 tallest = reinterpret_cast<const float4*>(highest())[quad];
        add(is_few ? largest(tallest) : tallest.x);
        if (is_few) continue;
        add(tallest.y);
        add(tallest.z);
        add(tallest.w);
    }
    __syncthreads();
    return depth_with(k);
}

template <typename T, Rows ROWS>
__device__ __noinline__ uint32_t Draw<T, ROWS>::gather(float distance) {
    constexpr uint32_t AT_ONCE = 2;
    const float top = x_max;
    // x_max - x may overflow to +inf, and is still less than an infinite distance.
    const auto is_near = [=](float x) { return (x > negative_infinity()) & (fminf(top - x, LARGEST_FLOAT) < distance); };
    const uint32_t reached = collect_where(highest(), is_near);
    over_fours<AT_ONCE>(reached, [&](float4 (&x)[AT_ONCE], uint32_t start) {
        uint32_t hits = 0;
#pragma unroll
        for (uint32_t i = 0; i < AT_ONCE; i++) {
            if (ROWS != BARE && !is_bare) apply_edits_listed(x[i], start + i * HALVES, reached);
            hits |= (uint32_t(is_near(x[i].x)) | uint32_t(is_near(x[i].y)) << 1 | uint32_t(is_near(x[i].z)) << 2 | uint32_t(is_near(x[i].w)) << 3) << 4 * i;
        }
        if (hits == 0) return;
        // Few lanes have any token, so each takes its places by itself.
        uint32_t next = atomicAdd(&others, __popc(hits));
#pragma unroll
        for (uint32_t i = 0; i < AT_ONCE; i++) {
            const float logits_here[4] = {x[i].x, x[i].y, x[i].z, x[i].w};
#pragma unroll
            for (uint32_t j = 0; j < 4; j++) {
                if (!(hits >> (4 * i + j) & 1)) continue;
                if (next < LIST_CAPACITY) keys[next] = key_of(logits_here[j], work()[start + i * HALVES] * BLOCK + 4 * (threadIdx.x & 15) + j);
                next++;
            }
        }
    });
    __syncthreads();
    return others;
}

template <typename T, Rows ROWS>
__device__ __noinline__ uint32_t Draw<T, ROWS>::race_few(uint32_t listed) {
    // Eight threads for each key, or four, two, one.
    const uint32_t shift = listed <= DRAW_THREADS / 8 ? 3 : listed <= DRAW_THREADS / 4 ? 2 : listed <= DRAW_THREADS / 2 ? 1 : 0, each = 1u << shift;
    const uint32_t lane = threadIdx.x & 31, i = threadIdx.x >> shift, part = threadIdx.x & (each - 1);
    const Stage* const nucleus = this->nucleus();
    uint64_t* const weights = keys + LIST_CAPACITY / 2;
    const Key own = i < listed ? keys[i] : ~0ull;
    const float x = i < listed ? logit_of(own) : negative_infinity();
    const uint64_t own_weight = nucleus != nullptr && i < listed ? weight({x_max, nucleus->scale}, x) : 0;
    if (part == 0) weights[i] = own_weight;
    if (threadIdx.x == 0) {
        lead = order_of(negative_infinity());
        count = 0;
    }
    __syncthreads();
    uint32_t rank = 0;
    uint64_t mass = 0;
#pragma unroll 8
    for (uint32_t j = part; j < listed; j += each) {
        const bool is_earlier = keys[j] < own;
        rank += is_earlier;
        mass += is_earlier ? weights[j] : 0;
    }
    for (uint32_t offset = 1; offset < each; offset *= 2) {
        rank += __shfl_xor_sync(ALL_LANES, rank, offset);
        mass += __shfl_xor_sync(ALL_LANES, mass, offset);
    }
    bool is_kept = i < listed && rank < sequence.k_before && x >= bottom_before;
    // The mass that TOP_P sees, unless the first pass knows it: the tokens that earlier stages keep, each
    // once.
    uint64_t least = total.least, most = total.most;
    const bool is_counted = nucleus != nullptr && most == 0;
    if (is_counted) {
        uint64_t seen = is_kept && part == 0 ? own_weight : 0;
#pragma unroll
        for (int offset = 16; offset > 0; offset >>= 1) seen += __shfl_xor_sync(ALL_LANES, seen, offset);
        if (lane == 0) parts[threadIdx.x >> 5].mass = seen;
    }
    const uint32_t token = uint32_t(own);
    const float gain = i < listed ? gains()[token / BLOCK] : 0.0f;
    float score = rough_score(token, x, gain);
    if (is_counted) {
        __syncthreads();
#pragma unroll
        for (uint32_t w = 0; w < WARPS; w++) most += parts[w].mass;
        least = most;
    }
    is_kept = is_kept && rank < sequence.k && x >= bottom && (nucleus == nullptr || is_below(mass, nucleus->share, most));
    const bool is_open = is_kept && nucleus != nullptr && least != most && !is_below(mass, nucleus->share, least);
    score = is_kept ? score : negative_infinity();
    const float high = largest_of_warp(score);
    if (lane == 0 && high > negative_infinity()) atomicMax(&lead, order_of(high));
    __syncthreads();
    if (is_kept && part == 0 && score + 2 * MARGIN >= number_of(lead)) {
        keys[LIST_CAPACITY / 2 + atomicAdd(&count, 1)] = own;
        // The bounds of the total leave it open whether this token is kept: the whole answer is open.
        if (is_open) lead = order_of(positive_infinity());
    }
    __syncthreads();
    if (number_of(lead) == positive_infinity()) return NO_TOKEN;
    const Key* const close = keys + LIST_CAPACITY / 2;
    if (count == 1) return uint32_t(close[0]);
    return best(threadIdx.x < count ? scored(close[threadIdx.x]) : nobody()).token;
}

template <typename T, Rows ROWS>
__device__ __noinline__ uint32_t Draw<T, ROWS>::list(uint32_t k) {
    clear_depths();
    const uint32_t listed = gather(depth_ends(depth_of(k)));
    if (listed > LIST_CAPACITY) return 0;
    sort(listed);
    return listed;
}

template <typename T, Rows ROWS>
__device__ __noinline__ void Draw<T, ROWS>::sort(uint32_t listed) {
    if (listed <= DRAW_THREADS / 4) {
        // Four threads for each key count how many keys come before it.
        const uint32_t i = threadIdx.x / 4;
        const Key own = i < listed ? keys[i] : 0;
        uint32_t place = 0;
#pragma unroll 4
        for (uint32_t j = threadIdx.x % 4; j < listed; j += 4) place += keys[j] < own;
        place += __shfl_xor_sync(ALL_LANES, place, 1);
        place += __shfl_xor_sync(ALL_LANES, place, 2);
        __syncthreads();
        if (i < listed && threadIdx.x % 4 == 0) keys[place] = own;
        __syncthreads();
        return;
    }
    if (listed <= DRAW_THREADS) {
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
    // A bitonic network over the whole list, its unused places filled with the largest key.
    for (uint32_t i = listed + threadIdx.x; i < LIST_CAPACITY; i += DRAW_THREADS) keys[i] = ~0ull;
    __syncthreads();
#pragma unroll 1
    for (uint32_t size = 2; size <= LIST_CAPACITY; size <<= 1) {
#pragma unroll 1
        for (uint32_t stride = size >> 1; stride > 0; stride >>= 1) {
#pragma unroll 1
            for (uint32_t i = threadIdx.x; i < LIST_CAPACITY / 2; i += DRAW_THREADS) {
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

template <typename T, Rows ROWS>
__device__ __noinline__ uint32_t Draw<T, ROWS>::passing(uint32_t listed) {
    uint32_t kept = 0;
#pragma unroll 1
    for (uint32_t start = 0; start < listed; start += DRAW_THREADS) {
        const uint32_t i = start + threadIdx.x;
        kept += __syncthreads_count(i < listed && passes(logit_of(keys[i]), uint32_t(keys[i])));
    }
    return kept;
}

template <typename T, Rows ROWS>
__device__ __noinline__ uint32_t Draw<T, ROWS>::top_p(const Stage& stage, uint32_t listed, uint64_t total) {
    const Softmax softmax = {x_max, stage.scale};
    const uint32_t lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    __syncthreads();
    // In the order, as many tokens at a time as there are threads; a first turn finds the total where it is
    // not given and does not fit one stretch.
    uint64_t before_stretch = 0;
    uint32_t kept = 0;
#pragma unroll 1
    for (uint32_t turn = total == 0 && listed > DRAW_THREADS ? 0 : 1; turn < 2; turn++) {
        before_stretch = 0;
#pragma unroll 1
        for (uint32_t start = 0; start < listed; start += DRAW_THREADS) {
            const uint32_t i = start + threadIdx.x;
            const uint64_t own = i < listed ? weight(softmax, logit_of(keys[i])) : 0;
            uint64_t upto = own;
#pragma unroll
            for (int offset = 1; offset < 32; offset <<= 1) {
                const uint64_t other = __shfl_up_sync(ALL_LANES, upto, offset);
                if (lane >= offset) upto += other;
            }
            if (lane == 31) parts[warp].mass = upto;
            __syncthreads();
            uint64_t before_own = before_stretch + upto - own, stretch = 0;
#pragma unroll
            for (uint32_t i = 0; i < WARPS; i++) {
                const uint64_t of_warp = parts[i].mass;
                before_own += i < warp ? of_warp : 0;
                stretch += of_warp;
            }
            before_stretch += stretch;
            if (turn == 0) {
                __syncthreads();
                continue;
            }
            const uint64_t whole = total != 0 ? total : before_stretch;
            kept += __syncthreads_count(i < listed && is_below(before_own, stage.share, whole));
        }
        if (turn == 0) total = before_stretch;
    }
    return kept;
}

template <typename T, Rows ROWS>
__device__ __noinline__ Finalist Draw<T, ROWS>::race_listed(uint32_t listed) {
    __syncthreads();
    if (threadIdx.x == 0) {
        lead = order_of(negative_infinity());
        count = 0;
    }
    __syncthreads();
    float high = negative_infinity();
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < listed; i += DRAW_THREADS) {
        const uint32_t token = uint32_t(keys[i]);
        const float score = rough_score(token, logit_of(keys[i]), gains()[token / BLOCK]);
        listed_scores[i] = score;
        high = fmaxf(high, score);
    }
    high = largest_of_warp(high);
    if ((threadIdx.x & 31) == 0 && high > negative_infinity()) atomicMax(&lead, order_of(high));
    __syncthreads();
    high = number_of(lead);
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < listed; i += DRAW_THREADS) {
        if (listed_scores[i] + 2 * MARGIN >= high) {
            const uint32_t place = atomicAdd(&count, 1);
            if (place < CANDIDATE_CAPACITY) candidates[place] = keys[i];
        }
    }
    __syncthreads();
    const uint32_t found = count;
    if (found == 1) return {0.0, uint32_t(candidates[0]), logit_of(candidates[0])};
    Finalist own = nobody();
    if (found <= CANDIDATE_CAPACITY) {
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
