// Mirostat (crates/onedraw/src/stages/truncate/mirostat.rs).
//
// The naive loop, with the tokens that are left in a sorted list:
//
//     version 2: keep p >= 2^-mu, as EPSILON does
//     version 1: s = sum of t * b / sum of t * t over the first 100, t = ln((i + 2) / (i + 1)), b = y[i] - y[i + 1]
//                k = (e * 2^mu / (1 - N^-e))^(1 / s), e = s - 1; keep the first k
//     after the draw: mu -= eta * (surprise of the drawn token in bits - tau)
//
// and for rows after guesses, mu is what it would be if the guess were drawn.
//
// What this code does differently:
//
// 1. The first 100 are found as everywhere (`best_listed`). The terms of the two sums are computed by a
//    thread each, and added by one thread in their order.
// 2. A row computes mu for each guess that follows it, and writes it where the row after that guess finds it.
//    So the draw is launched level by level: first the rows right after the texts, then those after one
//    guess, and so on. Rows without mirostat are all in the first level. The first pass does not need mu, and
//    is launched once.
//
// Why this is exact: sums of f64 depend on their order, which is the CPU's (1). A guess is taken only if it is
// the token of the row before, and then what the row learns from it is what the guess was said to teach. A
// guess that the row does not keep is never taken, and nobody asks what the rows after it draw: these find the
// row's own mu (2).
#pragma once

#include "cutoff.cuh"

// The last token that MIROSTAT keeps.
template <typename Draw>
__device__ __noinline__ Key cut_mirostat(Draw& draw, const Stage& stage) {
    constexpr uint32_t FITTED = 100;
    if (stage.k == 2) {
        Stage cutoff = stage;
        cutoff.kind = EPSILON;
        cutoff.number = -draw.sequence.mu * LN_2;
        return cut_cutoff(draw, cutoff);
    }
    const uint32_t listed = best_listed(draw, FITTED);
    uint32_t fitted = 0;
#pragma unroll 1
    for (uint32_t start = 0; start < listed; start += DRAW_THREADS) fitted += __syncthreads_count(start + threadIdx.x < listed && draw.keys[start + threadIdx.x] <= draw.last);
    fitted = min(fitted, FITTED);
    double* const terms = reinterpret_cast<double*>(draw.keys + LIST_CAPACITY / 2);
    const double top = double(logit_of(draw.keys[0])), factor = stage.inverse;
    // The list may be longer than half of the keys' memory, of which only the first hundred are read.
    double product = 0.0, square = 0.0;
    if (threadIdx.x + 1 < fitted) {
        const double y = (double(logit_of(draw.keys[threadIdx.x])) - top) * factor, next = (double(logit_of(draw.keys[threadIdx.x + 1])) - top) * factor;
        const double t = ln((double(threadIdx.x) + 2.0) / (double(threadIdx.x) + 1.0));
        product = t * (y - next);
        square = t * t;
    }
    __syncthreads();
    if (threadIdx.x + 1 < fitted) {
        terms[2 * threadIdx.x] = product;
        terms[2 * threadIdx.x + 1] = square;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        double products = 0.0, squares = 0.0;
#pragma unroll 1
        for (uint32_t i = 0; i + 1 < fitted; i++) {
            products += terms[2 * i];
            squares += terms[2 * i + 1];
        }
        const double s = squares > 0.0 ? products / squares : 0.0, e = s - 1.0, ln_n = ln_of_any(double(draw.vocabulary));
        const double ratio = e == 0.0 ? 1.0 / ln_n : e / (1.0 - exponential_of(-e * ln_n));
        const double power = draw.sequence.mu * LN_2 + ln_of_any(ratio), ln_k = power / s;
        const double infinite = __longlong_as_double(0x7ff0000000000000ll);
        const double k = s == 0.0 || ln_k != ln_k ? (power > 0.0 ? infinite : 1.0) : exponential_of(ln_k);
        // Rust's `as u32` rounds down, and makes 0 of what is below 1.
        draw.found_number = k < double(1u << 20) ? max(uint32_t(__double2ull_rz(k)), 1u) : 1u << 20;
    }
    __syncthreads();
    const uint64_t k = draw.found_number;
    __syncthreads();
    return select(draw, 0.0f, k - 1, draw.last);
}

// Where it stands once a token is drawn, of which the logarithm of the mass of what is left is known. Any thread may call
// it.
template <typename Draw>
__device__ __noinline__ double learned(const Draw& draw, uint32_t token, double ln_mass) {
    const float x = draw.at(token);
    // A greedy draw surprises nobody.
    double logprob = 0.0;
    if (!draw.sequence.is_greedy) {
        if (key_of(x, token) > draw.last || !draw.passes(x, token)) return draw.sequence.mu;
        logprob = (double(x) - double(draw.x_max)) * draw.sequence.inverse - ln_mass;
    }
    const double surprise = -logprob / LN_2;
    return draw.sequence.mu - draw.sequence.eta * (surprise - draw.sequence.tau);
}

// Learns from the drawn token (NO_TOKEN: there is none yet), and tells the rows after guesses.
template <typename Draw>
__device__ __noinline__ void learn(Draw& draw, uint32_t token) {
    const double ln_mass = draw.sequence.is_greedy ? 0.0 : ln(relative(spread(draw, draw.sequence.scale, false).mass));
    __syncthreads();
    if (threadIdx.x == 0) {
        if (token != NO_TOKEN) draw.step_copy.reports[draw.row].mu = draw.next_mu = learned(draw, token, ln_mass);
        const Task* const tasks = draw.step_copy.tasks;
        // Nobody waits for rows of a launch that draws all at once.
#pragma unroll 1
        for (uint32_t child = draw.step_copy.level > 0 ? tasks[draw.row].first_child : 0; child != 0; child = tasks[child].next_sibling) {
            draw.step_copy.reports[child].mu = learned(draw, tasks[child].path[tasks[child].depth - 1], ln_mass);
        }
    }
    __syncthreads();
}

// Whether the row is drawn in this launch.
template <typename Draw>
__device__ __forceinline__ bool is_due(const Draw& draw, const Step& step) {
    if (step.level == 0) return true;
    const Task& task = step.tasks[draw.row];
    return (step.sequences[task.slot].mirostat ? task.depth : 0) + 1 == step.level;
}
