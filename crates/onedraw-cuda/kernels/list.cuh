// The first tokens of the order, listed and sorted, and what truncations keep of them. Part of draw.cuh.
#pragma once

#include "draw.cuh"

template <typename T, bool BARE>
__device__ __noinline__ uint32_t Draw<T, BARE>::depth_of(uint32_t k) {
    // Three depths at a time are asked after, two bits of the answer: 256, 64, 16 and 4 are left to choose from.
    const uint32_t quads = room / 4, enough = k + k / 2;
    const float top = x_max;
    // The first four blocks of a thread, and for most vocabularies all of them, stay in registers.
    const float4 tallest = reinterpret_cast<const float4*>(highest())[threadIdx.x];
    const float4 distance = make_float4(top - tallest.x, top - tallest.y, top - tallest.z, top - tallest.w);
    uint32_t low = 0, turn = 0;
    __syncthreads();
#pragma unroll 1
    for (uint32_t width = 64; width > 0; width /= 4, turn ^= 1) {
        const float near = depth_ends(low + width - 1), middle = depth_ends(low + 2 * width - 1), far = depth_ends(low + 3 * width - 1);
        uint32_t own = 0;
        const auto add = [&](float distance) { own += (distance < near ? 1 : 0) + (distance < middle ? 1 << 10 : 0) + (distance < far ? 1 << 20 : 0); };
        add(distance.x);
        add(distance.y);
        add(distance.z);
        add(distance.w);
#pragma unroll 1
        for (uint32_t quad = threadIdx.x + DRAW_THREADS; quad < quads; quad += DRAW_THREADS) {
            const float4 more = reinterpret_cast<const float4*>(highest())[quad];
            add(top - more.x);
            add(top - more.y);
            add(top - more.z);
            add(top - more.w);
        }
        const uint3 sums = counted(own, turn);
        const uint32_t first = sums.x, second = sums.y, third = sums.z;
        // A depth that holds enough and little more ends it.
        if (first >= k && first <= enough) return low + width - 1;
        if (second >= k && second <= enough) return low + 2 * width - 1;
        if (third >= k && third <= enough) return low + 3 * width - 1;
        low += first >= k ? 0 : second >= k ? width : third >= k ? 2 * width : 3 * width;
    }
    return low;
}

template <typename T, bool BARE>
__device__ __noinline__ uint32_t Draw<T, BARE>::gather(float distance) {
    constexpr uint32_t AHEAD = 4, HALVES = 2 * WARPS;
    const float top_logit = x_max;
    const uint32_t reached = collect_where(highest(), [=](float x) { return top_logit - x < distance; }), lane = threadIdx.x & 31, tokens = vocabulary;
    const T* const row_logits = logits;
    const bool is_aligned = reinterpret_cast<uint64_t>(row_logits) % (4 * sizeof(T)) == 0;
    if (threadIdx.x == 0) others = 0;
    __syncthreads();
#pragma unroll 1
    for (uint32_t start = threadIdx.x / 16; start - (lane >> 4) < reached; start += AHEAD * HALVES) {
        float4 x[AHEAD];
        uint32_t token[AHEAD];
#pragma unroll
        for (uint32_t i = 0; i < AHEAD; i++) {
            token[i] = start + i * HALVES < reached ? work()[start + i * HALVES] * BLOCK + 4 * (lane & 15) : tokens;
            x[i] = make_float4(negative_infinity(), negative_infinity(), negative_infinity(), negative_infinity());
            if (is_aligned && token[i] + 4 <= tokens) {
                x[i] = four(row_logits + token[i]);
            } else {
                if (token[i] < tokens) x[i].x = one(row_logits + token[i]);
                if (token[i] + 1 < tokens) x[i].y = one(row_logits + token[i] + 1);
                if (token[i] + 2 < tokens) x[i].z = one(row_logits + token[i] + 2);
                if (token[i] + 3 < tokens) x[i].w = one(row_logits + token[i] + 3);
            }
        }
        // The places of a warp's tokens are taken at once.
        uint32_t hits = 0;
#pragma unroll
        for (uint32_t i = 0; i < AHEAD; i++) {
            if (!BARE && !is_bare && token[i] < tokens) adjustment.apply(x[i], token[i], place);
            hits |= uint32_t(top_logit - x[i].x < distance) << 4 * i | uint32_t(top_logit - x[i].y < distance) << (4 * i + 1) | uint32_t(top_logit - x[i].z < distance) << (4 * i + 2) |
                    uint32_t(top_logit - x[i].w < distance) << (4 * i + 3);
        }
        const uint32_t own = __popc(hits);
        uint32_t upto = own;
#pragma unroll
        for (int offset = 1; offset < 32; offset <<= 1) {
            const uint32_t other = __shfl_up_sync(ALL, upto, offset);
            if (lane >= offset) upto += other;
        }
        uint32_t next = 0;
        if (lane == 31 && upto > 0) next = atomicAdd(&others, upto);
        next = __shfl_sync(ALL, next, 31) + upto - own;
#pragma unroll
        for (uint32_t i = 0; i < AHEAD; i++) {
            const float logits_here[4] = {x[i].x, x[i].y, x[i].z, x[i].w};
#pragma unroll
            for (uint32_t j = 0; j < 4; j++) {
                if (hits >> (4 * i + j) & 1) {
                    if (next < LISTED) keys[next] = key_of(logits_here[j], token[i] + j);
                    next++;
                }
            }
        }
    }
    __syncthreads();
    return others;
}

template <typename T, bool BARE>
__device__ __noinline__ uint32_t Draw<T, BARE>::race_few(uint32_t listed, uint32_t k, const Stage* nucleus, float bottom_before, float bottom) {
    // Eight threads a key, four, two or one.
    const uint32_t shift = listed <= DRAW_THREADS / 8 ? 3 : listed <= DRAW_THREADS / 4 ? 2 : listed <= DRAW_THREADS / 2 ? 1 : 0, each = 1u << shift;
    const uint32_t lane = threadIdx.x & 31, i = threadIdx.x >> shift, part = threadIdx.x & (each - 1);
    uint64_t* const weights = keys + LISTED / 2;
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
        rank += __shfl_xor_sync(ALL, rank, offset);
        mass += __shfl_xor_sync(ALL, mass, offset);
    }
    bool is_kept = i < listed && rank < k && x >= bottom_before;
    // What the whole weighs: each token once.
    uint64_t total = is_kept && part == 0 ? own_weight : 0;
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) total += __shfl_xor_sync(ALL, total, offset);
    if (lane == 0) parts[threadIdx.x >> 5].mass = total;
    const uint32_t token = uint32_t(own);
    const float luck = i < listed ? lucks()[token / BLOCK] : 0.0f;
    float score = rough_score(token, x, luck);
    __syncthreads();
    total = 0;
#pragma unroll
    for (uint32_t w = 0; w < WARPS; w++) total += parts[w].mass;
    is_kept = is_kept && x >= bottom && (nucleus == nullptr || is_below(mass, nucleus->share, total));
    score = is_kept ? score : negative_infinity();
    const float high = largest_of_warp(score);
    if (lane == 0 && high > negative_infinity()) atomicMax(&lead, order_of(high));
    __syncthreads();
    if (is_kept && part == 0 && score + 2 * MARGIN >= number_of(lead)) keys[LISTED / 2 + atomicAdd(&count, 1)] = own;
    __syncthreads();
    const Key* const close = keys + LISTED / 2;
    if (count == 1) return uint32_t(close[0]);
    return best(threadIdx.x < count ? scored(close[threadIdx.x]) : nobody()).token;
}

template <typename T, bool BARE>
__device__ __noinline__ uint32_t Draw<T, BARE>::list(uint32_t k) {
    const uint32_t bottom = depth_of(k);
    const uint32_t reached = collect_where(highest(), [&](float top) { return (top > negative_infinity()) & (depth(top) <= bottom); });
    __syncthreads();
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    over(reached, [&](float x, uint32_t token) {
        append_key(x > negative_infinity() && depth(x) <= bottom, key_of(x, token));
    });
    __syncthreads();
    const uint32_t listed = count;
    if (listed > LISTED) return 0;
    sort(listed);
    return listed;
}

template <typename T, bool BARE>
__device__ __noinline__ void Draw<T, BARE>::sort(uint32_t listed) {
    if (listed <= DRAW_THREADS / 4) {
        // Four threads a key count who is before it.
        const uint32_t i = threadIdx.x / 4;
        const Key own = i < listed ? keys[i] : 0;
        uint32_t place = 0;
#pragma unroll 4
        for (uint32_t j = threadIdx.x % 4; j < listed; j += 4) place += keys[j] < own;
        place += __shfl_xor_sync(ALL, place, 1);
        place += __shfl_xor_sync(ALL, place, 2);
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

template <typename T, bool BARE>
__device__ __noinline__ uint32_t Draw<T, BARE>::passing(uint32_t listed) {
    uint32_t kept = 0;
#pragma unroll 1
    for (uint32_t start = 0; start < listed; start += DRAW_THREADS) {
        const uint32_t i = start + threadIdx.x;
        kept += __syncthreads_count(i < listed && passes(logit_of(keys[i])));
    }
    return kept;
}

template <typename T, bool BARE>
__device__ __noinline__ uint32_t Draw<T, BARE>::top_p(const Stage& stage, uint32_t listed, uint64_t total) {
    const Softmax softmax = {x_max, stage.scale};
    const uint32_t lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    // In the order, a stretch of as many tokens as there are threads at a time; twice if the total is to be found first.
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
                const uint64_t other = __shfl_up_sync(ALL, upto, offset);
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

template <typename T, bool BARE>
__device__ __noinline__ Finalist Draw<T, BARE>::race_listed(uint32_t listed) {
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
        const float score = rough_score(token, logit_of(keys[i]), lucks()[token / BLOCK]);
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
