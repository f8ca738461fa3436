// The last token that each truncation keeps, searched over the row: for chains that are not plain, for
// reports of what is left, and for laws. Part of draw.cuh.
//
// The naive loop (crates/onedraw/src/reference/truncations.rs), with the kept tokens in a sorted list:
//
//     TOP_K    keep the first k
//     TOP_P    keep token i if the mass before it is below p of the total
//     EPSILON, ETA, TOP_A    keep y >= bar, the bar from the total (and the entropy)
//     TOP_N_SIGMA            keep x_max - x <= n * sigma
//     TYPICAL  keep the tokens nearest to the entropy whose mass reaches p
//
// What this code does differently:
//
// 1. Nothing is sorted. Every truncation is the last key that it keeps (`last`), so the next one looks at the
//    tokens up to it. Typical removes tokens at the top too, which `above` says, and x_max is taken anew.
// 2. Where a unit of a count or of a mass lies is found by a radix select (`select`): the row is summed into
//    2,048 bins by distance from the best logit, the bin that the unit falls into is listed, sorted and
//    walked through. If a bin has too many tokens for the list, as on a row of ties, the key is found by
//    halving, with a sum over the row for each half.
// 3. Bars, sigma's limit and typical's window are functions of a logit that hold for a run of logits: the
//    lowest such f32 is found by halving over all floats (`lowest_where`), as
//    crates/onedraw/src/numeric/key.rs does.
// 4. Typical's distances are f32 numbers of 31 bits: selected in three passes of 11, 10 and 10 bits.
//
// Why this is exact:
//
// - Bins are sums of integers by atomics: the order does not matter. The bin of a token depends on the
//   rounded difference x_max - x, which is monotone in x: bins are runs of the order, and a unit's place
//   within its bin is its place less what the bins before hold.
// - Sums of weights, surprises and of sigma's q and q^2 are integers, in 128 bits where they need it. What
//   follows from them is computed in f64 by one thread's or all threads' same operations, in the order of the
//   CPU's: cutoff.rs, top_n_sigma.rs and typical.rs of crates/onedraw/src/stages/truncate/.
#pragma once

#include "draw.cuh"

template <typename T, Rows ROWS>
template <typename Measure>
__device__ __forceinline__ uint32_t Draw<T, ROWS>::crossed(uint64_t unit, Key last, Measure measure) {
    constexpr uint32_t BINS = LIST_CAPACITY, OF_THREAD = BINS / DRAW_THREADS;
    unsigned long long* const sums = reinterpret_cast<unsigned long long*>(keys);
    const uint32_t reached = collect(logit_of(last)), lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < BINS; i += DRAW_THREADS) sums[i] = 0;
    if (threadIdx.x == 0) count = BINS;
    __syncthreads();
    over(reached, [&](float x, uint32_t token) {
        if (key_of(x, token) > last || !passes(x)) return;
        uint32_t bin = BINS;
        const uint64_t amount = measure(x, bin);
        if (bin < BINS && amount > 0) atomicAdd(&sums[bin], amount);
    });
    __syncthreads();
    uint64_t own = 0;
#pragma unroll 1
    for (uint32_t i = 0; i < OF_THREAD; i++) own += sums[threadIdx.x * OF_THREAD + i];
    uint64_t upto = own;
#pragma unroll
    for (int offset = 1; offset < 32; offset <<= 1) {
        const uint64_t other = __shfl_up_sync(ALL_LANES, upto, offset);
        if (lane >= offset) upto += other;
    }
    if (lane == 31) parts[warp].mass = upto;
    __syncthreads();
    uint64_t before = upto - own;
    for (uint32_t i = 0; i < warp; i++) before += parts[i].mass;
    if (before <= unit && unit < before + own) {
        uint32_t bin = threadIdx.x * OF_THREAD;
        while (unit >= before + sums[bin]) before += sums[bin++];
        count = bin;
        found_number = unit - before;
    }
    __syncthreads();
    return count;
}

template <typename T, Rows ROWS>
__device__ __noinline__ Key Draw<T, ROWS>::select(float scale, uint64_t unit, Key last) {
    const Softmax softmax = {x_max, scale};
    const float top = x_max;
    // The bin of a logit: how far it is below the best, in 128 steps for each octave from 2^-8 to 2^8.
    const auto slot = [top](float x) {
        constexpr uint32_t LOWEST = (127 - 8) << 7;
        const uint32_t bits = __float_as_uint(top - x) >> 16;
        return bits <= LOWEST ? 0 : min(bits - LOWEST, LIST_CAPACITY - 1);
    };
    const uint32_t bin = crossed(unit, last, [&](float x, uint32_t& bin) {
        bin = slot(x);
        return scale == 0.0f ? 1 : weight(softmax, x);
    });
    if (bin == LIST_CAPACITY) return key_end();
    const uint64_t rest = found_number;
    const uint32_t reached = collect(logit_of(last));
    __syncthreads();
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    over(reached, [&](float x, uint32_t token) {
        const Key key = key_of(x, token);
        append_key(key <= last && passes(x) && slot(x) == bin, key);
    });
    __syncthreads();
    const uint32_t listed = count;
    if (listed <= LIST_CAPACITY) {
        sort(listed);
        if (threadIdx.x == 0) {
            uint64_t upto = 0;
            uint32_t i = 0;
            do upto += scale == 0.0f ? 1 : weight(softmax, logit_of(keys[i]));
            while (upto <= rest && ++i < listed);
            found_key = keys[i];
        }
        __syncthreads();
        return found_key;
    }
    // Too many tokens of nearly one logit: halve the keys.
    Key low = key_of(top, 0), high = last;
#pragma unroll 1
    while (low < high) {
        const Key middle = low + (high - low) / 2;
        const Census upto = census(middle, scale);
        if ((scale == 0.0f ? upto.count : upto.mass) > unit) high = middle;
        else low = middle + 1;
    }
    return low;
}

template <typename T, Rows ROWS>
template <typename Holds>
__device__ __forceinline__ float Draw<T, ROWS>::lowest_where(float from, Holds holds) {
    __syncthreads();
    if (threadIdx.x == 0) {
        found_logit = positive_infinity();
        if (holds(from)) {
            uint32_t inside = descending(from), outside = descending(-LARGEST_FLOAT) + 1;
            while (outside - inside > 1) {
                const uint32_t middle = inside + (outside - inside) / 2;
                if (holds(logit_of_place(middle))) inside = middle;
                else outside = middle;
            }
            found_logit = logit_of_place(inside);
        }
    }
    __syncthreads();
    return found_logit;
}

constexpr double LN_2 = 0.693147180559945309417232121458176568;

// `bar` is ln(bar) + ln(Z / 2^43), 0 at most, as `Cutoff::bar` computes it.
template <typename T, Rows ROWS>
__device__ __noinline__ Key Draw<T, ROWS>::cut_cutoff(const Stage& stage, Key last) {
    const Softmax softmax = {x_max, stage.scale};
    const float top = x_max;
    const double factor = stage.inverse;
    uint64_t mass = 0, surprises = 0;
    over(collect(logit_of(last)), [&](float x, uint32_t token) {
        if (key_of(x, token) > last || !passes(x)) return;
        mass += weight(softmax, x);
        if (stage.kind == ETA) surprises += surprise(softmax, x);
    });
    const Census all = sum(surprises, mass);
    const double ln_mass = ln(relative(all.mass)), e = stage.number;
    double bar = stage.kind == TOP_A ? e - ln_mass : e + ln_mass;
    if (stage.kind == ETA) {
        const double entropy = ln_mass + LN_2 * (double(all.count) / double(all.mass)), other = 0.5 * e - entropy;
        bar = (e < other ? e : other) + ln_mass;
    }
    bar = bar < 0.0 ? bar : 0.0;
    const float lowest_kept = lowest_where(top, [=](float x) { return (double(x) - double(top)) * factor >= bar; });
    return last_of(lowest_kept <= top ? lowest_kept : top);
}

template <typename T, Rows ROWS>
__device__ __noinline__ Key Draw<T, ROWS>::cut_sigma(const Stage& stage, Key last) {
    const double top = double(x_max);
    // The last token up to `last`: its distance is the range.
    uint64_t latest = 0;
    over(collect(logit_of(last)), [&](float x, uint32_t token) {
        const Key key = key_of(x, token);
        if (key <= last && passes(x) && key > latest) latest = key;
    });
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) {
        const uint64_t other = __shfl_xor_sync(ALL_LANES, latest, offset);
        latest = other > latest ? other : latest;
    }
    __syncthreads();
    if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5].mass = latest;
    __syncthreads();
    for (uint32_t i = 0; i < WARPS; i++) latest = parts[i].mass > latest ? parts[i].mass : latest;
    const double range = top - double(logit_of(latest));
    if (range == 0.0) return last;
    const uint64_t bits = __double_as_longlong(range);
    const int exponent = int(bits >> 52) - 1023 + int(bits << 12 != 0);
    const double scale = power_of_two(40 - exponent);
    // q is 2^40 at most. Its square is summed in two parts of 40 bits, which 2^20 tokens cannot overflow.
    uint64_t tokens = 0, whole = 0, squares_low = 0, squares_high = 0;
    over(collect(logit_of(last)), [&](float x, uint32_t token) {
        if (key_of(x, token) > last || !passes(x)) return;
        const uint64_t q = __double2ull_rz((top - double(x)) * scale);
        const unsigned __int128 square = (unsigned __int128)q * q;
        tokens++;
        whole += q;
        squares_low += uint64_t(square) & ((1ull << 40) - 1);
        squares_high += uint64_t(square >> 40);
    });
    const Census first = sum(tokens, whole), second = sum(squares_high, squares_low);
    const unsigned __int128 squares = ((unsigned __int128)second.count << 40) + second.mass;
    const unsigned __int128 spread = (unsigned __int128)first.count * squares - (unsigned __int128)first.mass * first.mass;
    const double limit = stage.number * (__dsqrt_rn(nearest(spread)) / double(first.count) * power_of_two(exponent - 40));
    const float lowest_kept = lowest_where(x_max, [=](float x) { return top - double(x) <= limit; });
    return last_of(lowest_kept <= float(top) ? lowest_kept : float(top));
}

template <typename T, Rows ROWS>
__device__ __noinline__ Key Draw<T, ROWS>::cut_typical(const Stage& stage, Key last) {
    const Softmax softmax = {x_max, stage.scale};
    const float top = x_max;
    const double factor = stage.inverse;
    uint64_t mass = 0, surprises = 0;
    over(collect(logit_of(last)), [&](float x, uint32_t token) {
        if (key_of(x, token) > last || !passes(x)) return;
        mass += weight(softmax, x);
        surprises += surprise(softmax, x);
    });
    const Census all = sum(surprises, mass);
    const double mean = -(LN_2 * (double(all.count) / double(all.mass)));
    const auto scaled = [=](float x) { return (double(x) - double(top)) * factor; };
    const auto distance = [=](float x) { return float(fabs(scaled(x) - mean)); };
    // The distance of the token in which the last unit of the share lies, nearest tokens first.
    const unsigned __int128 product = (unsigned __int128)stage.share * all.mass + ((1ull << 53) - 1);
    uint64_t unit = uint64_t(product >> 53);
    unit = unit > 0 ? unit - 1 : 0;
    uint32_t chosen = 0;
    bool is_found = true;
#pragma unroll 1
    for (uint32_t digit = 0; digit < 3 && is_found; digit++) {
        const uint32_t shift = digit == 0 ? 21 : digit == 1 ? 10 : 0, bins = digit == 2 ? 1024 : 2048;
        const uint32_t bin = crossed(unit, last, [&](float x, uint32_t& bin) {
            const uint32_t beyond = __float_as_uint(distance(x)) - chosen;
            bin = __float_as_uint(distance(x)) >= chosen && beyond >> shift < bins ? beyond >> shift : LIST_CAPACITY;
            return weight(softmax, x);
        });
        is_found = bin < LIST_CAPACITY;
        if (is_found) {
            chosen += bin << shift;
            unit = found_number;
        }
        __syncthreads();
    }
    const float farthest = is_found ? __uint_as_float(chosen) : positive_infinity();
    const float too_likely = lowest_where(top, [=](float x) { return scaled(x) > mean && distance(x) > farthest; });
    const float least_likely = lowest_where(top, [=](float x) { return scaled(x) > mean || distance(x) <= farthest; });
    const Key end = least_likely <= top ? last_of(least_likely) : last;
    if (too_likely <= top) {
        // The first tokens go: another one is the best now.
        float best_left = negative_infinity();
        over(collect(negative_infinity()), [&](float x, uint32_t) {
            if (x < too_likely) best_left = fmaxf(best_left, x);
        });
        best_left = largest_of_all(best_left);
        __syncthreads();
        if (threadIdx.x == 0) {
            above = too_likely;
            x_max = best_left;
        }
        __syncthreads();
    }
    return end < last ? end : last;
}

template <typename T, Rows ROWS>
__device__ __noinline__ void Draw<T, ROWS>::cut() {
#pragma unroll 1
    for (uint32_t i = 0; i < sequence.stages; i++) {
        const Stage& stage = sequence.stage[i];
        Key end = 0;
        switch (stage.kind) {
            case MIN_P: end = last_of(lowest_of(stage.number)); break;
            case TOP_K: end = select(0.0f, stage.k - 1, last); break;
            case TOP_P: end = cut_nucleus(stage); break;
            case TYPICAL: end = cut_typical(stage, last); break;
            case TOP_N_SIGMA: end = cut_sigma(stage, last); break;
            default: end = cut_cutoff(stage, last); break;
        }
        const bool is_earlier = end < last;
        __syncthreads();
        if (threadIdx.x == 0 && is_earlier) last = end;
        __syncthreads();
    }
}

template <typename T, Rows ROWS>
__device__ __noinline__ Key Draw<T, ROWS>::cut_nucleus(const Stage& stage) {
    const uint64_t mass = census(last, stage.scale).mass;
    const unsigned __int128 product = (unsigned __int128)stage.share * mass + ((1ull << 53) - 1);
    const uint64_t units = uint64_t(product >> 53);
    return select(stage.scale, units > 0 ? units - 1 : 0, last);
}
