// Whether a token is in the nucleus of TOP_P: asked after the draw.
//
// The naive loop (crates/onedraw/src/stages/truncate/top_p.rs):
//
//     total  = sum of weight(token) over all tokens that TOP_P sees
//     before = sum of weight(token) over the tokens before this one
//     return before * 2^53 < share * total
//
// What this code does differently: both masses are bounded first, and exact sums are taken only where the
// bounds leave the answer open. In `is_in_nucleus`, from the cheapest to the dearest:
//
// 1. `total_mass` and `mass_before`: by the estimated masses of the blocks (from the first pass) and by their
//    largest logits, without reading a token. A block whose largest logit is above the token's has at least
//    this logit's weight before the token, and at most all of its mass.
// 2. `mass_opened`: the tokens before this one are read, and summed as f32 powers.
// 3. `total_opened`: blocks with more than 2^-12 of the total are summed exactly, the others stay estimates;
//    and the mass before the token is summed exactly.
// 4. The total is summed exactly.
//
// Before the draw, `reach_of_nucleus` finds a distance below the best logit beyond which nothing can be in
// the nucleus, so that few tokens need to be listed or raced.
//
// Why this is exact:
//
// - The bounds hold. Every estimate is within SUM_ERROR of the sum that it stands for (limits.cuh). Weights
//   are floors, so the integer sum is smaller than the real one by at most 1 for each token: `around` and
//   `mass_before` subtract the vocabulary. Each conversion to an integer is rounded down for a lower bound
//   and up for an upper one.
// - before / total < p follows from (most before) / (least total) < p, and its opposite from (least before) /
//   (most total) >= p. All comparisons are of integers in 128 bits.
// - A nucleus ends where the mass before a token reaches p of the total. The best tokens of the blocks within
//   some distance are tokens of the row, so if they alone weigh p of the total or more, every token farther
//   away has at least that mass before it, and is not in the nucleus. `reach_of_nucleus` takes lower bounds
//   of these weights and an upper bound of the total.
#pragma once

#include "fetch.cuh"
#include "list.cuh"
#include "repair.cuh"

// Weights for `reach_of_nucleus` are in units of 2^-17 of the best token's weight, rounded down: fewer than
// 2^14 blocks of up to 2^17 units fill no more than 31 bits. A token of fewer than HEAVY_UNITS is light: it
// is added only where the heavy ones do not reach p. Hundreds of light tokens fall into few words of the
// histogram, whose atomics wait for each other; without them, and with one more change, 8 rows took 9.7 us
// instead of 10.4 (bench/results/2026-11-16-cuda.md, top-p).
constexpr uint32_t HEAVY_UNITS = 64;

// Whether mass * 2^53 < share * total, in 128 bits: whether a mass is below a share, a fraction of 2^53,
// of a total.
__device__ __forceinline__ bool is_below(uint64_t mass, uint64_t share, uint64_t total) {
    const uint64_t high = mass >> 11, low = mass << 53;
    const uint64_t other_high = __umul64hi(share, total), other_low = share * total;
    return high < other_high || (high == other_high && low < other_low);
}

// Bounds of a mass that was summed in f32 powers, in units of 2^-32 of the best token's weight (2^11 of a
// mass). Every weight is rounded down, so each token may have lost 1; and each thread rounded its sum
// down by less than one of the 2^11.
template <typename Draw>
__device__ __forceinline__ Bounds around(const Draw& draw, uint64_t sum) {
    const uint64_t mass = sum << 11, error = (mass >> 14) + draw.vocabulary;
    return {mass > error ? mass - error : 0, mass + error + (uint64_t(DRAW_THREADS) << 12)};
}

// A mass of f32, in units of the best token's weight, in units of 2^-32 of it.
__device__ __forceinline__ uint64_t units(float mass) { return __float2ull_rz(mass * 0x1p32f); }

// Adds the weights of the best tokens of four blocks to the histogram at their depths: those that are
// heavy, or the others. Any thread may call it.
template <typename Draw>
__device__ __forceinline__ void add_best(Draw& draw, uint32_t quad, float scale, bool heavy) {
    const float4 tallest = reinterpret_cast<const float4*>(draw.highest())[quad];
    const float top = draw.x_max;
    const auto add = [&](float x) {
        const uint32_t amount = uint32_t(power_of((x - top) * scale) * (0x1p17f * (1.0f - SUM_ERROR)));
        if (amount > 0 && (amount >= HEAVY_UNITS) == heavy) atomicAdd(&draw.depth_histogram[depth(draw, x)], amount);
    };
    add(tallest.x);
    add(tallest.y);
    add(tallest.z);
    add(tallest.w);
}

// Bounds of the mass of the whole row, by the first pass; and the masses of its blocks, for
// `mass_before`. {0, 0} if the first pass cannot say.
template <typename Draw>
__device__ __noinline__ Bounds total_mass(Draw& draw, float scale) {
    // `group` is a power of two.
    const uint32_t shift = __ffs(draw.group) - 1, quads = draw.padded_blocks / 4, blocks = draw.pitch;
    const float top = draw.x_max;
    const bool has_edits = is_edited(Draw::rows) && draw.adjustment.touched != nullptr;
    float* const known = reinterpret_cast<float*>(draw.work());
    if (has_edits) {
        // The references were overwritten by the list of lost blocks: read them again.
        __syncthreads();
        fetch(known, draw.references, (draw.pitch + draw.group - 1) / draw.group);
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncthreads();
    }
    float mass = 0.0f;
    bool is_lost = false;
#pragma unroll 1
    for (uint32_t quad = threadIdx.x; quad < quads; quad += DRAW_THREADS) {
        float4 sum = {};
        const uint32_t block = 4 * quad;
        add_best(draw, quad, scale, true);
        if (block < blocks) {
            sum = reinterpret_cast<const float4*>(draw.masses())[quad];
            // A group is two blocks, or a multiple of four: a vector of four blocks has one reference or two.
            const float first = (known[block >> shift] - top) * scale, second = (known[(block + 2) >> shift] - top) * scale;
            // The reference may be an unedited logit that an edit has lowered since. If it is far above the
            // best logit now, the other tokens of the group were too small beside it to be summed precisely.
            is_lost |= fmaxf(first, second) > 16.0f;
            const float one = power_of(first), other = power_of(second);
            sum = make_float4(one * sum.x, one * sum.y, other * sum.z, other * sum.w);
        }
        reinterpret_cast<float4*>(draw.masses())[quad] = sum;
        mass += (sum.x + sum.y) + (sum.z + sum.w);
    }
    if (has_edits) {
        if (__syncthreads_or(is_lost)) return {};
        repair_masses(draw, scale);
        mass = 0.0f;
#pragma unroll 1
        for (uint32_t quad = threadIdx.x; quad < quads; quad += DRAW_THREADS) {
            const float4 sum = reinterpret_cast<const float4*>(draw.masses())[quad];
            mass += (sum.x + sum.y) + (sum.z + sum.w);
        }
    }
    return around(draw, draw.amount(units(mass)));
}

// How far below the best logit the nucleus can reach, by the largest logits of the blocks alone; +inf if
// they do not say.
template <typename Draw>
__device__ __noinline__ float reach_of_nucleus(Draw& draw, const Stage& stage) {
    if (draw.nucleus_reach >= 0.0f) return draw.nucleus_reach;
    const float share = float(stage.share) * 0x1p-53f, wanted = share * float(draw.total.most) * (1.0f + SUM_ERROR) * 0x1p-26f + 1.0f;
    if (!(wanted < 0x1p31f)) return positive_infinity();
    const uint32_t enough = uint32_t(wanted) + 1, reached = depth_with(draw, enough);
    if (reached < DEPTHS - 1) return depth_ends(reached);
    __syncthreads();
#pragma unroll 1
    for (uint32_t quad = threadIdx.x; quad < draw.padded_blocks / 4; quad += DRAW_THREADS) add_best(draw, quad, stage.scale, false);
    __syncthreads();
    return depth_ends(depth_with(draw, enough));
}

// Bounds of the mass before a token, by the largest logits and the masses of the blocks alone.
template <typename Draw>
__device__ __noinline__ Bounds mass_before(Draw& draw, Key key, float scale) {
    // 2^57 is 2^14 times the best token's weight: in units of 2^-17 of it, the sums below would overflow.
    // Many tokens are nearly as good as the best then, and the next bounds decide.
    if (draw.total.most >> 57 != 0) return {0, draw.total.most};
    const uint32_t quads = draw.padded_blocks / 4;
    const float x = logit_of(key), top = draw.x_max;
    // In units of 2^-17 of the best token's weight, rounded down for the lower bound and up for the upper.
    constexpr float UNITS = 0x1p17f;
    uint32_t least = 0, most = 0;
#pragma unroll 1
    for (uint32_t quad = threadIdx.x; quad < quads; quad += DRAW_THREADS) {
        const float4 tallest = reinterpret_cast<const float4*>(draw.highest())[quad], mass = reinterpret_cast<const float4*>(draw.masses())[quad];
        // The largest logit of a block comes before the token for certain if it is larger; the rest of the
        // block perhaps. Where the two are equal, ids decide, which are not looked at: only the upper bound
        // counts it.
        const auto add = [&](float highest_here, float mass_here) {
            const uint32_t low = uint32_t(power_of((highest_here - top) * scale) * (UNITS * (1.0f - SUM_ERROR))), high = uint32_t(mass_here * (UNITS * (1.0f + SUM_ERROR))) + 1;
            least += highest_here > x ? low : 0;
            most += highest_here >= x ? high : 0;
        };
        add(tallest.x, mass.x);
        add(tallest.y, mass.y);
        add(tallest.z, mass.z);
        add(tallest.w, mass.w);
    }
    const uint2 sums = draw.tallied(make_uint2(least, most));
    // A unit is 2^26 of a mass. Each weight is rounded down by less than 1.
    const uint64_t floors = draw.vocabulary, low = uint64_t(sums.x) << 26;
    return {low > floors ? low - floors : 0, uint64_t(sums.y) << 26};
}

// The same by reading the blocks that reach the token, in f32.
template <typename Draw>
__device__ __noinline__ Bounds mass_opened(Draw& draw, Key key, float scale) {
    const float top = draw.x_max;
    float mass = 0.0f;
    before_key(draw, key, [&](float x, float bound) { mass += x >= bound ? power_of((x - top) * scale) : 0.0f; });
    return around(draw, draw.amount(units(mass)));
}

// Bounds of the mass of the whole row, exact for the blocks that have nearly all of it.
template <typename Draw>
__device__ __noinline__ Bounds total_opened(Draw& draw, float scale) {
    const Softmax softmax = {draw.x_max, scale};
    const float least = float(draw.total.least) * (1.0f / float(UNIT)) * 0x1p-12f;
    const uint32_t quads = draw.padded_blocks / 4;
    float rest = 0.0f;
#pragma unroll 1
    for (uint32_t quad = threadIdx.x; quad < quads; quad += DRAW_THREADS) {
        const float4 mass = reinterpret_cast<const float4*>(draw.masses())[quad];
        rest += (mass.x >= least ? 0.0f : mass.x) + (mass.y >= least ? 0.0f : mass.y) + (mass.z >= least ? 0.0f : mass.z) + (mass.w >= least ? 0.0f : mass.w);
    }
    uint64_t mass = 0;
    over(draw, collect_where(draw, draw.masses(), [least](float mass) { return mass >= least; }), [&](float x, uint32_t) { mass += weight(softmax, x); });
    const uint64_t exactly = draw.sum(0, mass).mass;
    const Bounds others = around(draw, draw.amount(units(rest)));
    return {exactly + others.least, exactly + others.most};
}

// Whether TOP_P keeps a token: asks the cheapest bounds first.
template <typename Draw>
__device__ __noinline__ bool is_in_nucleus(Draw& draw, Key key) {
    if (draw.total.least != draw.total.most) {
        const Bounds rough = mass_before(draw, key, draw.nucleus()->scale);
        if (is_below(rough.most, draw.nucleus()->share, draw.total.least)) return true;
        if (!is_below(rough.least, draw.nucleus()->share, draw.total.most)) return false;
        const Bounds finer = mass_opened(draw, key, draw.nucleus()->scale);
        if (is_below(finer.most, draw.nucleus()->share, draw.total.least)) return true;
        if (!is_below(finer.least, draw.nucleus()->share, draw.total.most)) return false;
        draw.set_total(total_opened(draw, draw.nucleus()->scale));
    }
    const uint64_t exactly = census(draw, key - 1, draw.nucleus()->scale).mass;
    if (is_below(exactly, draw.nucleus()->share, draw.total.least)) return true;
    if (!is_below(exactly, draw.nucleus()->share, draw.total.most)) return false;
    const float bottom = draw.lowest;
    draw.set_lowest(negative_infinity());
    const uint64_t mass = census(draw, key_end(), draw.nucleus()->scale).mass;
    draw.set_lowest(bottom);
    draw.set_total({mass, mass});
    return is_below(exactly, draw.nucleus()->share, mass);
}
