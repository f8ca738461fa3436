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
        if (key_of(x, token) > last || !passes(x, token)) return;
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
        append_key(key <= last && passes(x, token) && slot(x) == bin, key);
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
__device__ __noinline__ Key Draw<T, ROWS>::cut_cutoff(const Stage& stage) {
    const float top = x_max;
    const double factor = stage.inverse;
    const Gauge all = spread(stage.scale, stage.kind == ETA);
    const double ln_mass = ln(relative(all.mass)), e = stage.number;
    double bar = stage.kind == TOP_A ? e - ln_mass : e + ln_mass;
    if (stage.kind == ETA) {
        const double entropy = ln_mass + LN_2 * (double(all.surprises) / double(all.mass)), other = 0.5 * e - entropy;
        bar = (e < other ? e : other) + ln_mass;
    }
    bar = bar < 0.0 ? bar : 0.0;
    const float lowest_kept = lowest_where(top, [=](float x) { return (double(x) - double(top)) * factor >= bar; });
    return last_of(lowest_kept <= top ? lowest_kept : top);
}

template <typename T, Rows ROWS>
__device__ __noinline__ typename Draw<T, ROWS>::Latest Draw<T, ROWS>::latest(Key last) {
    uint64_t latest = 0, tokens = 0;
    over(collect(logit_of(last)), [&](float x, uint32_t token) {
        const Key key = key_of(x, token);
        const bool is_in = key <= last && passes(x, token);
        tokens += is_in;
        if (is_in && key > latest) latest = key;
    });
    latest = largest_key(latest);
    return {latest, sum(tokens, 0).count};
}

template <typename T, Rows ROWS>
__device__ __noinline__ Gauge Draw<T, ROWS>::spread(float scale, bool has_surprises) {
    if (whole.mass != 0 && scale == sequence.gauge_scale && (!has_surprises || sequence.gauge == MASS_AND_SURPRISES) && is_whole()) return whole;
    const Softmax softmax = {x_max, scale};
    const Key end = last;
    uint64_t tokens = 0, mass = 0, surprises = 0;
    over(collect(logit_of(end)), [&](float x, uint32_t token) {
        if (key_of(x, token) > end || !passes(x, token)) return;
        tokens++;
        mass += weight(softmax, x);
        if (has_surprises) surprises += surprise(softmax, x);
    });
    const Census all = sum(surprises, mass);
    return {all.mass, all.count, uint32_t(sum(tokens, 0).count), 0};
}

template <typename T, Rows ROWS>
__device__ __noinline__ Key Draw<T, ROWS>::cut_sigma(const Stage& stage, Key last) {
    const double top = double(x_max);
    // The last token up to `last`: its distance is the range.
    const double range = top - double(logit_of(latest(last).key));
    if (range == 0.0) return last;
    const uint64_t bits = __double_as_longlong(range);
    const int exponent = int(bits >> 52) - 1023 + int(bits << 12 != 0);
    const double scale = power_of_two(40 - exponent);
    // q is 2^40 at most. Its square is summed in two parts of 40 bits, which 2^20 tokens cannot overflow.
    uint64_t tokens = 0, whole = 0, squares_low = 0, squares_high = 0;
    over(collect(logit_of(last)), [&](float x, uint32_t token) {
        if (key_of(x, token) > last || !passes(x, token)) return;
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
    const Gauge all = spread(stage.scale, true);
    const double mean = -(LN_2 * (double(all.surprises) / double(all.mass)));
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
        over(collect(negative_infinity()), [&](float x, uint32_t token) {
            if (x < too_likely && passes(x, token)) best_left = fmaxf(best_left, x);
        });
        best_left = largest_of_all(best_left);
        __syncthreads();
        if (threadIdx.x == 0) {
            above = too_likely;
            x_max = best_left + 0.0f;
        }
        __syncthreads();
    }
    return end < last ? end : last;
}

template <typename T, Rows ROWS>
__device__ __noinline__ uint32_t Draw<T, ROWS>::cut() {
    // In shared memory rather than in registers, which are scarce here.
    if (threadIdx.x == 0) {
        const uint32_t which = has_mask();
        next_operation = sequence.is_plain ? sequence.stage : sequence.chains[which];
        end_of_chain = next_operation + sequence.chain_lengths[which];
    }
    __syncthreads();
    // Bounds of the total of TOP_P, while work() still holds the references that they are computed from.
    if (sequence.sum_scale != 0.0f) set_total(total_mass(sequence.sum_scale));
#pragma unroll 1
    while (next_operation != end_of_chain) {
        if (threadIdx.x < sizeof(Stage) / 8) reinterpret_cast<uint64_t*>(&operation)[threadIdx.x] = reinterpret_cast<const uint64_t*>(next_operation)[threadIdx.x];
        __syncthreads();
        if (threadIdx.x == 0) next_operation++;
        const Stage& stage = operation;
        if (sequence.is_dynamic && stage.kind != HEAT && stage.kind != SMOOTH) {
            if (threadIdx.x == 0) {
                operation.inverse = heat_inverse;
                operation.scale = sequence.scale;
                if (operation.kind == MIN_P) operation.number = heat * __longlong_as_double(operation.share);
            }
            __syncthreads();
        }
        Key end = last;
        switch (stage.kind) {
            case NARROW: {
                const uint32_t emptied = narrow(stage);
                if (emptied != NO_EDIT) return emptied;
                end = last;
                break;
            }
            case SMOOTH: smooth({stage.number, __longlong_as_double(stage.share), stage.inverse}, true); break;
            case HEAT: set_heat(stage); break;
            case XTC: remove_top_choices(stage); break;
            case MIROSTAT: end = cut_mirostat(stage); break;
            case MIN_P: end = last_of(lowest_of(stage.number)); break;
            case TOP_K: end = select(0.0f, stage.k - 1, last); break;
            case TOP_P: end = cut_nucleus(stage); break;
            case TYPICAL: end = cut_typical(stage, last); break;
            case TOP_N_SIGMA: end = cut_sigma(stage, last); break;
            default: end = cut_cutoff(stage); break;
        }
        const bool is_earlier = end < last;
        __syncthreads();
        if (threadIdx.x == 0 && is_earlier) last = end;
        __syncthreads();
    }
    return NO_EDIT;
}

template <typename T, Rows ROWS>
__device__ __noinline__ Key Draw<T, ROWS>::cut_nucleus(const Stage& stage) {
    if (is_whole() && total.most != 0 && stage.scale == sequence.sum_scale) {
        const Key end = listed_nucleus(stage);
        if (end != 0) return end;
    }
    const uint64_t mass = spread(stage.scale, false).mass;
    const unsigned __int128 product = (unsigned __int128)stage.share * mass + ((1ull << 53) - 1);
    const uint64_t units = uint64_t(product >> 53);
    return select(stage.scale, units > 0 ? units - 1 : 0, last);
}

// By a list of all tokens that can be in the nucleus, and by the bounds of the total that the first pass has: hardly ever
// do they leave a token open.
template <typename T, Rows ROWS>
__device__ __noinline__ Key Draw<T, ROWS>::listed_nucleus(const Stage& stage) {
    const float reach = reach_of_nucleus(stage);
    if (!(reach < positive_infinity())) return 0;
    const uint32_t listed = gather(reach);
    if (listed > LIST_CAPACITY) return 0;
    sort(listed);
    uint32_t kept = top_p(stage, listed, total.least);
    if (kept != top_p(stage, listed, total.most)) {
        const uint64_t mass = spread(stage.scale, false).mass;
        kept = top_p(stage, listed, mass);
    }
    return keys[kept - 1];
}
