// What the stages search a row with: where a unit of a count or of a mass lies, the lowest logit of which something
// holds, the last token, and sums over what is left.
//
// The naive loops, with the tokens that are left in a sorted list:
//
//     select          sum = 0; for each token: sum += 1, or its weight; return the first token with sum > unit
//     lowest_where    for each f32 from `from` downwards: if it holds for this one, go on; return the last of which it held
//     latest          the last token of the list
//     spread          for each token: mass += its weight, surprises += its weight times its surprise, tokens += 1
//     best_listed     the first tokens of the list
//
// What this code does differently:
//
// 1. Nothing is sorted. What stages have left so far is four numbers: the last key (`last`), the logits `above` and
//    `lowest` between which tokens are left, and XTC's `head`; `passes` asks the last three.
// 2. Where a unit of a count or of a mass lies is found by a radix select (`select`): the row is summed into
//    2,048 bins by distance from the best logit, the bin that the unit falls into is listed, sorted and
//    walked through. If a bin has too many tokens for the list, as on a row of ties, the key is found by
//    halving, with a sum over the row for each half.
// 3. What holds for a run of logits is found by halving over all floats (`lowest_where`), as
//    crates/onedraw/src/numeric/key.rs does.
// 4. Sums over a row that is still whole are taken by many thread blocks before the draw (rows/gauge.cuh).
//
// Why this is exact: bins and sums are sums of integers by atomics: the order does not matter. The bin of a token
// depends on the rounded difference x_max - x, which is monotone in x: bins are runs of the order, and a unit's place
// within its bin is its place less what the bins before hold (2).
#pragma once

#include "../draw/list.cuh"

constexpr double LN_2 = 0.693147180559945309417232121458176568;

// Sums the tokens up to `last` that pass into bins: `measure(x, bin)` sets the bin of a token and returns
// what it adds. Returns the bin that unit number `unit` lies in, and leaves in `found_number` which unit
// of that bin it is.
template <typename Draw, typename Measure>
__device__ __forceinline__ uint32_t crossed(Draw& draw, uint64_t unit, Key last, Measure measure) {
    constexpr uint32_t BINS = LIST_CAPACITY, OF_THREAD = BINS / DRAW_THREADS;
    unsigned long long* const sums = reinterpret_cast<unsigned long long*>(draw.keys);
    const uint32_t reached = collect(draw, logit_of(last)), lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < BINS; i += DRAW_THREADS) sums[i] = 0;
    if (threadIdx.x == 0) draw.count = BINS;
    __syncthreads();
    sweep(draw, reached, [&](float x, uint32_t token) {
        if (key_of(x, token) > last || !draw.passes(x, token)) return;
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
    if (lane == 31) draw.parts[warp].mass = upto;
    __syncthreads();
    uint64_t before = upto - own;
    for (uint32_t i = 0; i < warp; i++) before += draw.parts[i].mass;
    if (before <= unit && unit < before + own) {
        uint32_t bin = threadIdx.x * OF_THREAD;
        while (unit >= before + sums[bin]) before += sums[bin++];
        draw.count = bin;
        draw.found_number = unit - before;
    }
    __syncthreads();
    return draw.count;
}

// The token in which unit number `unit` of a measure lies, counted in the order from 0, among the tokens
// up to `last` that pass; key_end() if there is less. A scale of 0 counts tokens, any other sums weights. Leaves in
// `found_number` how many more units of that token follow (0: perhaps none).
template <typename Draw>
__device__ __noinline__ Key select(Draw& draw, float scale, uint64_t unit, Key last) {
    const Softmax softmax = {draw.x_max, scale};
    const float top = draw.x_max;
    // The bin of a logit: how far it is below the best, in 128 steps for each octave from 2^-8 to 2^8.
    const auto slot = [top](float x) {
        constexpr uint32_t LOWEST = (127 - 8) << 7;
        const uint32_t bits = __float_as_uint(top - x) >> 16;
        return bits <= LOWEST ? 0 : min(bits - LOWEST, LIST_CAPACITY - 1);
    };
    const uint32_t bin = crossed(draw, unit, last, [&](float x, uint32_t& bin) {
        bin = slot(x);
        return scale == 0.0f ? 1 : weight(softmax, x);
    });
    if (bin == LIST_CAPACITY) return key_end();
    const uint64_t rest = draw.found_number;
    const uint32_t reached = collect(draw, logit_of(last));
    __syncthreads();
    if (threadIdx.x == 0) draw.count = 0;
    __syncthreads();
    over(draw, reached, [&](float x, uint32_t token) {
        const Key key = key_of(x, token);
        append_key(draw, key <= last && draw.passes(x, token) && slot(x) == bin, key);
    });
    __syncthreads();
    const uint32_t listed = draw.count;
    if (listed <= LIST_CAPACITY) {
        sort(draw, listed);
        if (threadIdx.x == 0) {
            uint64_t upto = 0;
            uint32_t i = 0;
            do upto += scale == 0.0f ? 1 : weight(softmax, logit_of(draw.keys[i]));
            while (upto <= rest && ++i < listed);
            draw.found_key = draw.keys[i];
            draw.found_number = upto - 1 - rest;
        }
        __syncthreads();
        return draw.found_key;
    }
    // Too many tokens of nearly one logit: halve the keys.
    Key low = key_of(top, 0), high = last;
#pragma unroll 1
    while (low < high) {
        const Key middle = low + (high - low) / 2;
        const Census upto = census(draw, middle, scale);
        if ((scale == 0.0f ? upto.count : upto.mass) > unit) high = middle;
        else low = middle + 1;
    }
    if (threadIdx.x == 0) draw.found_number = 0;
    __syncthreads();
    return low;
}

// The lowest logit for which `holds`, which must hold for a run of logits that begins with `from`; +inf
// if it does not hold there.
template <typename Holds>
__device__ __forceinline__ float lowest_where(float from, Holds holds) {
    if (!holds(from)) return positive_infinity();
    // Each thread asks about one of the places between the last that is known to hold and the first that is known not to:
    // four rounds.
    uint32_t inside = descending(from), outside = descending(-LARGEST_FLOAT) + 1;
#pragma unroll 1
    while (outside - inside > 1) {
        const uint32_t step = (outside - inside - 1) / (DRAW_THREADS + 1) + 1;
        const uint64_t place = inside + uint64_t(threadIdx.x + 1) * step;
        inside += step * __syncthreads_count(place < outside && holds(logit_of_place(uint32_t(place))));
        outside = outside - inside > step ? inside + step : outside;
    }
    return logit_of_place(inside);
}

// The last token up to some key that is left, and how many there are.
struct Latest {
    Key key;
    uint64_t count;
};

// Finds it for the tokens up to `last`.
template <typename Draw>
__device__ __noinline__ Latest latest(Draw& draw, Key last) {
    uint64_t latest = 0, tokens = 0;
    over(draw, collect(draw, logit_of(last)), [&](float x, uint32_t token) {
        const Key key = key_of(x, token);
        const bool is_in = key <= last && draw.passes(x, token);
        tokens += is_in;
        if (is_in && key > latest) latest = key;
    });
    latest = draw.largest_key(latest);
    return {latest, draw.sum(tokens, 0).count};
}

// The mass of a row without masks and edits, by this thread block alone.
template <typename Draw>
__device__ __noinline__ uint64_t mass_of_row(Draw& draw, Softmax softmax) {
    uint64_t mass = 0;
    over_row(draw, [&](uint4 x, uint32_t) { over_packed<typename Draw::Logit>(x, [&](float x, uint32_t) { mass += weight_below(softmax, x); }); });
    return draw.sum(0, mass).mass;
}

// Sums over the tokens that are left.
template <typename Draw>
__device__ __noinline__ Gauge spread(Draw& draw, float scale, bool has_surprises) {
    if (draw.whole.mass != 0 && scale == draw.sequence.gauge_scale && (!has_surprises || draw.sequence.gauge == MASS_AND_SURPRISES) && draw.is_whole()) return draw.whole;
    const Softmax softmax = {draw.x_max, scale};
    const Key end = draw.last;
    if (Draw::rows == STAGED && !has_surprises && draw.is_bare && draw.is_aligned() && draw.is_whole()) return {mass_of_row(draw, softmax), 0, 0, 0};
    uint64_t tokens = 0, mass = 0, surprises = 0;
    sweep(draw, collect(draw, logit_of(end)), [&](float x, uint32_t token) {
        if (key_of(x, token) > end || !draw.passes(x, token)) return;
        tokens++;
        mass += weight(softmax, x);
        if (has_surprises) surprises += surprise(softmax, x);
    });
    const Census all = draw.sum(surprises, mass);
    return {all.mass, all.count, uint32_t(draw.sum(tokens, 0).count), 0};
}

// Lists the best tokens, sorted: at least so many, or all there are. Returns how many.
template <typename Draw>
__device__ __noinline__ uint32_t best_listed(Draw& draw, uint32_t wanted) {
    const uint32_t found = draw.above == positive_infinity() && draw.head == 0 ? list(draw, wanted) : 0;
    if (found != 0) return found;
    // The list did not fit, or typical or XTC removed tokens at the top: find the key of the last wanted token, and
    // list what comes up to it. These are as many as are wanted, which fit.
    const float bottom = draw.lowest;
    draw.set_lowest(negative_infinity());
    const Key worst = select(draw, 0.0f, wanted - 1, key_end());
    const uint32_t reached = collect(draw, logit_of(worst));
    __syncthreads();
    if (threadIdx.x == 0) draw.count = 0;
    __syncthreads();
    over(draw, reached, [&](float x, uint32_t id) {
        const Key key = key_of(x, id);
        append_key(draw, key <= worst && x > negative_infinity() && draw.passes(x, id), key);
    });
    __syncthreads();
    const uint32_t listed = draw.count;
    sort(draw, listed);
    draw.set_lowest(bottom);
    return listed;
}
