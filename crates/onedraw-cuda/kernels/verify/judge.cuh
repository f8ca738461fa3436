// Verification of drafts by laws (distributions), as crates/onedraw/src/decode/speculate/ has it in law.rs,
// chance.rs, rejection.rs, block.rs and typical.rs: first the draw kernel writes the law of every row
// (law.cuh), then one thread block judges each draft.
//
// The naive loop, by rejection:
//
//     row = the text
//     repeat:
//         p = the law of the row
//         for each guess after the row, q being the law that it was drawn from:
//             accept it with probability p(guess) / q(guess); if accepted, the row after it is next
//             otherwise p = normalised max(p - q, 0), q = q without the guess
//         if no guess was accepted: draw from p and stop
//
// and for a chain that is judged as a whole (block verification, block.rs) the same with shares of p that are
// carried along the chain. By typicality:
//
//     a guess is likely if p(guess) > max(0, min(threshold, alpha * exp(-entropy of p)))
//     take the longest way down on which every guess is likely, of equally long ones the first
//     draw the token after it, as without a draft
//
// What this code does differently:
//
// 1. A law lies here as one number for every token, 0 where it has none; on the CPU laws are lists of tokens.
// 2. A sum over a law is taken by all threads, block by block (law.cuh).
// 3. Loops over tokens are spread over the threads. Whoever is first in a race is found by comparing (time,
//    id).
// 4. The CPU adds the terms of an entropy one by one, which only one thread can do. So the entropy is first
//    added block by block, and only if a guess is too close to the bound for that, one by one.
// 5. The longest likely way is found without a stack: each row learns how far down guesses are likely after
//    it, from the last node to the first, and then the way goes down to the first such node each time.
// 6. The token after a likely way is drawn by the draw kernel, which is launched again for what is reported
//    of the others: where the result of a row is NO_TOKEN, it draws.
//
// Why this is exact:
//
// - f64 sums depend on their order, so the order is part of the definition: block by block of 64 ids
//   (law.rs). Adding 0 changes no sum, so the dense law has the sums of the sparse one (1, 2).
// - Everything else is done for each token by itself, in the CPU's operations (3), and a minimum does not
//   depend on the order of comparisons.
// - Every thread computes the same decisions from the same shared numbers, so all go the same way.
// - The terms of an entropy have one sign, so a sum of n terms in any order is off by less than n * 2^-53 of
//   itself: 1.2e-10 for 2^20 tokens. An entropy is below 14, so the two sums differ by less than 3.3e-9, and
//   exp of them by as large a part. The margin is three times that (4).
// - A node comes after its parent and before its younger siblings, so the first of the longest ways is the one
//   that goes to the lower node wherever two have the same length (5).
#pragma once

#include "law.cuh"

// What guesses were drawn from: a law with one number for every token, or one token for certain.
struct Other {
    const double* values;
    uint32_t token;

    __device__ __forceinline__ double of(uint32_t id) const { return values != nullptr ? values[id] : id == token ? 1.0 : 0.0; }
};

// Who is first in a race: E / p in f64, and the token.
struct Arrival {
    double time;
    uint32_t token;
};

// The judge of one draft. All threads go the same way, because what they decide by is the same for all.
struct Judge {
    uint32_t vocabulary;
    // The noise of the position at which the draft begins.
    Noise noise;
    double all;
    double sums[JUDGE_THREADS];
    Arrival arrivals[JUDGE_THREADS / 32];

    template <typename Value>
    __device__ __forceinline__ double total(Value value) {
        return total_of(vocabulary, sums, all, value);
    }

    __device__ __forceinline__ Noise at(uint32_t depth) const { return {noise.seed, noise.position + depth, noise.sequence, noise.round}; }

    // Whether guess number `guess` after `depth` tokens of the draft is accepted with this probability.
    // (Noise::coin.)
    __device__ __noinline__ bool accepts(uint32_t depth, uint32_t guess, double probability) const {
        const uint4 bits = words(at(depth), ACCEPT, guess | depth << 20);
        const uint64_t coin = uint64_t(bits.x) << 20 | bits.y >> 12;
        return (double(coin) + 0.5) / 4503599627370496.0 < probability;
    }

    // max(share * p - q, 0) of a token.
    __device__ __forceinline__ static double surplus(const double* p, double share, Other q, uint32_t token) {
        const double more = share * p[token] - q.of(token);
        return more > 0.0 ? more : 0.0;
    }

    // The sum of max(share * p - q, 0).
    __device__ __noinline__ double excess(const double* p, double share, Other q) {
        return total([=](uint32_t token) { return surplus(p, share, q, token); });
    }

    // p becomes the law of max(share * p - q, 0); it stays as it is where that is nothing.
    __device__ __noinline__ void residual(double* p, double share, Other q) {
        const double sum = excess(p, share, q);
        if (!(sum > 0.0)) return;
#pragma unroll 1
        for (uint32_t token = threadIdx.x; token < vocabulary; token += JUDGE_THREADS) p[token] = surplus(p, share, q, token) / sum;
        __syncthreads();
    }

    // q becomes the law of the other tokens, once a token is taken; returns whether there are others.
    __device__ __noinline__ bool without(double* q, uint32_t taken) {
        const double sum = total([=](uint32_t token) { return token == taken ? 0.0 : q[token]; });
        if (!(sum > 0.0)) return false;
#pragma unroll 1
        for (uint32_t token = threadIdx.x; token < vocabulary; token += JUDGE_THREADS) q[token] = token == taken ? 0.0 : q[token] / sum;
        __syncthreads();
        return true;
    }

    __device__ __forceinline__ static Arrival first_of_warp(Arrival own) {
#pragma unroll 1
        for (int offset = 16; offset > 0; offset >>= 1) {
            const double time = __shfl_xor_sync(ALL_LANES, own.time, offset);
            const uint32_t token = __shfl_xor_sync(ALL_LANES, own.token, offset);
            if (time < own.time || (time == own.time && token < own.token)) own = {time, token};
        }
        return own;
    }

    // A token of a law, after `depth` tokens of the draft: the one that arrives first, of equals the lower
    // id. Four tokens share the words of one Philox call.
    __device__ __noinline__ uint32_t draws(uint32_t depth, const double* law) {
        const Noise here = at(depth);
        const uint32_t lane = threadIdx.x & 31;
        Arrival first = {__longlong_as_double(0x7ff0000000000000ll), NO_TOKEN};
#pragma unroll 1
        for (uint32_t quad = threadIdx.x; 4 * quad < vocabulary; quad += JUDGE_THREADS) {
            const uint4 bits = words(here, RESIDUAL, quad | depth << 20);
#pragma unroll 1
            for (uint32_t i = 0; i < 4 && 4 * quad + i < vocabulary; i++) {
                const double q = law[4 * quad + i];
                if (!(q > 0.0)) continue;
                const double time = exponential(word(bits, i)) / q;
                // The ids of a thread ascend, so an equal time does not replace the first.
                if (time < first.time) first = {time, 4 * quad + i};
            }
        }
        first = first_of_warp(first);
        __syncthreads();
        if (lane == 0) arrivals[threadIdx.x >> 5] = first;
        __syncthreads();
        return first_of_warp(arrivals[lane & (JUDGE_THREADS / 32 - 1)]).token;
    }

    // By rejection, guess by guess. The result of a row becomes the token that is taken there, as far down as
    // guesses hold.
    __device__ __forceinline__ void reject(const Step& step, const Trial& trial) {
        uint32_t row = 0, depth = 0;
#pragma unroll 1
        while (step.results[trial.first + row].status == DRAWN) {
            double* const p = step.laws + uint64_t(trial.first + row) * vocabulary;
            double* q = trial.drawn[row];
            uint32_t token = NO_TOKEN, number = 0;
// A node comes after its parent, so guesses of this row have numbers from `row` on.
#pragma unroll 1
            for (uint32_t node = row; node < trial.nodes; node++) {
                if (trial.parents[node] != row) continue;
                const Other other = {q, trial.tokens[node]};
                if (accepts(depth, number++, p[other.token] / other.of(other.token))) {
                    token = other.token;
                    break;
                }
                residual(p, 1.0, other);
                if (q != nullptr && !without(q, other.token)) q = nullptr;
            }
            if (token == NO_TOKEN) token = draws(depth, p);
            if (threadIdx.x == 0) step.results[trial.first + row].token = token;
            uint32_t next = row;
            while (next < trial.nodes && !(trial.parents[next] == row && trial.tokens[next] == token)) next++;
            if (next >= trial.nodes) return;
            row = next + 1;
            depth++;
        }
    }

    // A chain as a whole.
    __device__ __forceinline__ void judge_block(const Step& step, Trial& trial) {
        double share = 1.0;
        // Guesses that were looked at, and whether the last of them is one that the target never makes.
        uint32_t places = 0;
        bool is_impossible = false;
#pragma unroll 1
        while (places < trial.nodes && !is_impossible && step.results[trial.first + places].status == DRAWN) {
            const double* const p = step.laws + uint64_t(trial.first + places) * vocabulary;
            const Other q = {trial.drawn[places], trial.tokens[places]};
            // Every thread writes the same number.
            trial.shares[places] = share;
            share = fmin(1.0, share * (p[q.token] / q.of(q.token)));
            places++;
            is_impossible = share <= 0.0;
        }
        uint32_t length = places;
        double hold = is_impossible ? 0.0 : share;
#pragma unroll 1
        while (length > 0 && !accepts(length - 1, 0, hold)) {
            length--;
            const double* const p = step.laws + uint64_t(trial.first + length) * vocabulary;
            const double rest = 1.0 - trial.shares[length];
            hold = 1.0;
            if (rest > 0.0) {
                const double more = excess(p, trial.shares[length], {trial.drawn[length], trial.tokens[length]});
                hold = more / (more + rest);
            }
        }
        uint32_t token = NO_TOKEN;
        if (step.results[trial.first + length].status == DRAWN) {
            double* const p = step.laws + uint64_t(trial.first + length) * vocabulary;
            if (length < places) residual(p, trial.shares[length], {trial.drawn[length], trial.tokens[length]});
            token = draws(length, p);
        }
        __syncthreads();
        if (threadIdx.x != 0) return;
        trial.length = length;
        for (uint32_t i = 0; i < length; i++) step.results[trial.first + i].token = trial.tokens[i];
        if (token != NO_TOKEN) step.results[trial.first + length].token = token;
    }

    // A token's term of the entropy, negative.
    __device__ __forceinline__ static double term(const double* p, uint32_t token) {
        return p[token] > 0.0 ? p[token] * ln_of_any(p[token]) : 0.0;
    }

    // The entropy of a law, its terms added in the order of ids. (Probabilities::entropy.)
    __device__ __noinline__ double entropy(const double* p) {
        double so_far = 0.0;
#pragma unroll 1
        for (uint32_t begin = 0; begin < vocabulary; begin += JUDGE_THREADS) {
            const uint32_t token = begin + threadIdx.x;
            const double own = token < vocabulary ? term(p, token) : 0.0;
            __syncthreads();
            sums[threadIdx.x] = own;
            __syncthreads();
            if (threadIdx.x == 0) {
#pragma unroll 1
                for (uint32_t i = 0; i < JUDGE_THREADS; i++) so_far -= sums[i];
                all = so_far;
            }
        }
        __syncthreads();
        return all;
    }

    // Marks the rows after those guesses of a row that are likely: their share becomes 0.
    __device__ __noinline__ void mark_likely(const double* p, const Trial& trial, uint32_t row) {
        // A part of the bound, and something for bounds near 0.
        constexpr double MARGIN = 1e-8, LEAST = 1e-300;
        const auto bound = [&](double by_entropy) { return fmax(fmin(trial.threshold, by_entropy), 0.0); };
        const double about = trial.alpha * exponential_of(total([=](uint32_t token) { return term(p, token); }));
        const double margin = fabs(about) * MARGIN + LEAST;
        double low = bound(about - margin), high = bound(about + margin);
#pragma unroll 1
        for (uint32_t node = row; node < trial.nodes; node++) {
            if (trial.parents[node] != row || trial.tokens[node] >= vocabulary) continue;
            const double q = p[trial.tokens[node]];
            if (q > low && q <= high) low = high = bound(trial.alpha * exponential_of(-entropy(p)));
            if (q > high) trial.shares[node + 1] = 0.0;
        }
    }

    // By typicality. A row's share is how many likely guesses follow it one after the other; below 0 if a
    // guess before it is not likely. Every thread writes the same numbers.
    __device__ __forceinline__ void judge_typical(const Step& step, Trial& trial) {
        for (uint32_t row = 0; row <= trial.nodes; row++) trial.shares[row] = row == 0 ? 0.0 : -1.0;
#pragma unroll 1
        for (uint32_t row = 0; row < trial.nodes; row++) {
            if (trial.shares[row] < 0.0 || step.results[trial.first + row].status != DRAWN) continue;
            uint32_t node = row;
            while (node < trial.nodes && trial.parents[node] != row) node++;
            // A row without guesses needs no entropy.
            if (node < trial.nodes) mark_likely(step.laws + uint64_t(trial.first + row) * vocabulary, trial, row);
        }
        __syncthreads();
        if (threadIdx.x != 0) return;
        for (uint32_t node = trial.nodes; node-- > 0;) {
            const double below = trial.shares[node + 1];
            double& share = trial.shares[trial.parents[node]];
            if (below >= 0.0) share = fmax(share, below + 1.0);
        }
        uint32_t row = 0, length = 0;
        for (uint32_t node = 0; node < trial.nodes && trial.shares[row] > 0.0; node++) {
            if (trial.parents[node] != row || trial.shares[node + 1] != trial.shares[row] - 1.0) continue;
            step.results[trial.first + row].token = trial.tokens[node];
            row = node + 1;
            length++;
        }
        trial.length = length;
        if (step.results[trial.first + row].status == DRAWN) step.results[trial.first + row].token = NO_TOKEN;
    }
};

// One draft for each thread block.
__device__ __forceinline__ void judge_draft(const Step& step) {
    __shared__ Judge judge;
    Trial& trial = step.trials[blockIdx.x];
    const Sequence& sequence = step.sequences[trial.slot];
    if (threadIdx.x == 0) {
        judge.vocabulary = step.vocabulary;
        judge.noise = {sequence.seed, sequence.position, sequence.sequence, sequence.round};
    }
    __syncthreads();
    switch (trial.rule) {
        case BY_REJECTION: judge.reject(step, trial); break;
        case AS_A_BLOCK: judge.judge_block(step, trial); break;
        case IF_TYPICAL: judge.judge_typical(step, trial); break;
    }
}
