// Verification of drafts by laws, as crates/onedraw/src/speculate/{law,chance,rejection,block}.rs have it: the laws of all rows (part of draw.cuh), then
// one block of threads a draft, which goes down its tree.
//
// A law lies here as a number a token, 0 where it has none. To add 0 changes no sum, so every result has the bits of the sparse laws there.
#pragma once

#include "draw.cuh"

constexpr uint32_t JUDGE_THREADS = DRAW_THREADS;

// The sum of `value(token)` over all tokens, by all threads: block by block of 64 tokens, each in the order of ids, then their sums in the order of blocks. Both
// arrays of memory are the caller's and shared, `sums` a number a thread.
template <typename Value>
__device__ __forceinline__ double total_of(uint32_t vocabulary, double* sums, double& all, Value value) {
    const uint32_t blocks = (vocabulary + BLOCK - 1) / BLOCK;
    double so_far = 0.0;
#pragma unroll 1
    for (uint32_t begin = 0; begin < blocks; begin += JUDGE_THREADS) {
        const uint32_t first = (begin + threadIdx.x) * BLOCK, end = min(first + BLOCK, vocabulary);
        double sum = 0.0;
#pragma unroll 1
        for (uint32_t token = first; token < end; token++) sum += value(token);
        // The sums before have been added, and whatever was read of the last total.
        __syncthreads();
        sums[threadIdx.x] = sum;
        __syncthreads();
        if (threadIdx.x == 0) {
            const uint32_t count = min(blocks - begin, JUDGE_THREADS);
#pragma unroll 1
            for (uint32_t i = 0; i < count; i++) so_far += sums[i];
            all = so_far;
        }
    }
    __syncthreads();
    return all;
}

template <typename T, Rows ROWS>
__device__ __noinline__ void Draw<T, ROWS>::write_law(double* law, Key last) {
    static_assert(sizeof(keys) >= sizeof(double) * (JUDGE_THREADS + 1), "the list is the memory of the sums");
    const double ln_total = ln(relative(census(last, row.scale).mass)), top = double(x_max), inverse = row.inverse;
#pragma unroll 1
    for (uint32_t token = threadIdx.x; token < vocabulary; token += DRAW_THREADS) {
        const float x = at(token);
        law[token] = key_of(x, token) <= last && passes(x) ? exponential_of((double(x) - top) * inverse - ln_total) : 0.0;
    }
    __syncthreads();
    double* const sums = reinterpret_cast<double*>(keys);
    const double all = total_of(vocabulary, sums, sums[JUDGE_THREADS], [law](uint32_t token) { return law[token]; });
#pragma unroll 1
    for (uint32_t token = threadIdx.x; token < vocabulary; token += DRAW_THREADS) law[token] /= all;
}

// What guesses were drawn from: a number a token, or one token for certain.
struct Other {
    const double* values;
    uint32_t token;

    __device__ __forceinline__ double of(uint32_t id) const { return values != nullptr ? values[id] : id == token ? 1.0 : 0.0; }
};

// Who is first in a race.
struct Arrival {
    double time;
    uint32_t token;
};

// One draft. All threads go the same way; what they decide by is the same for all.
struct Judge {
    uint32_t vocabulary;
    // Where the draft begins.
    Noise noise;
    double all;
    double sums[JUDGE_THREADS];
    Arrival arrivals[JUDGE_THREADS / 32];

    template <typename Value>
    __device__ __forceinline__ double total(Value value) {
        return total_of(vocabulary, sums, all, value);
    }

    __device__ __forceinline__ Noise at(uint32_t depth) const { return {noise.seed, noise.position + depth, noise.sequence, noise.round}; }

    // Whether guess number `guess` after `depth` tokens of the draft is accepted with that probability.
    __device__ __noinline__ bool accepts(uint32_t depth, uint32_t guess, double probability) const {
        const uint4 bits = words(at(depth), ACCEPT, guess | depth << 20);
        const uint64_t coin = uint64_t(bits.x) << 20 | bits.y >> 12;
        return (double(coin) + 0.5) / 4503599627370496.0 < probability;
    }

    __device__ __forceinline__ static double surplus(const double* p, double share, Other q, uint32_t token) {
        const double more = share * p[token] - q.of(token);
        return more > 0.0 ? more : 0.0;
    }

    // The sum of max(share * p - q, 0).
    __device__ __noinline__ double excess(const double* p, double share, Other q) {
        return total([=](uint32_t token) { return surplus(p, share, q, token); });
    }

    // p becomes the law of max(share * p - q, 0), or stays where that is nothing.
    __device__ __noinline__ void residual(double* p, double share, Other q) {
        const double sum = excess(p, share, q);
        if (!(sum > 0.0)) return;
#pragma unroll 1
        for (uint32_t token = threadIdx.x; token < vocabulary; token += JUDGE_THREADS) p[token] = surplus(p, share, q, token) / sum;
        __syncthreads();
    }

    // q becomes the law of the others, once a token is taken; whether there are others.
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
            const double time = __shfl_xor_sync(ALL, own.time, offset);
            const uint32_t token = __shfl_xor_sync(ALL, own.token, offset);
            if (time < own.time || (time == own.time && token < own.token)) own = {time, token};
        }
        return own;
    }

    // A token of the law, after `depth` tokens of the draft: who arrives first, of equals the lower id. Four tokens share their words.
    __device__ __noinline__ uint32_t draws(uint32_t depth, const double* law) {
        const Noise here = at(depth);
        const uint32_t lane = threadIdx.x & 31;
        Arrival first = {__longlong_as_double(0x7ff0000000000000ll), 0xffffffffu};
#pragma unroll 1
        for (uint32_t quad = threadIdx.x; 4 * quad < vocabulary; quad += JUDGE_THREADS) {
            const uint4 bits = words(here, RESIDUAL, quad | depth << 20);
#pragma unroll 1
            for (uint32_t i = 0; i < 4 && 4 * quad + i < vocabulary; i++) {
                const double q = law[4 * quad + i];
                if (!(q > 0.0)) continue;
                const double time = exponential(word(bits, i)) / q;
                // A thread's tokens ascend.
                if (time < first.time) first = {time, 4 * quad + i};
            }
        }
        first = first_of_warp(first);
        __syncthreads();
        if (lane == 0) arrivals[threadIdx.x >> 5] = first;
        __syncthreads();
        return first_of_warp(arrivals[lane & (JUDGE_THREADS / 32 - 1)]).token;
    }

    // Rejection, token by token. The row's result becomes the token that is taken, as far down as guesses hold.
    __device__ __forceinline__ void reject(const Step& step, const Trial& trial) {
        uint32_t row = 0, depth = 0;
#pragma unroll 1
        while (step.results[trial.first + row].status == DRAWN) {
            double* const p = step.laws + uint64_t(trial.first + row) * vocabulary;
            double* q = trial.drawn[row];
            uint32_t token = 0xffffffffu, number = 0;
            // A node comes after its parent.
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
            if (token == 0xffffffffu) token = draws(depth, p);
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
        // Guesses that have been looked at, and whether the last is one that the target never makes.
        uint32_t places = 0;
        bool is_impossible = false;
#pragma unroll 1
        while (places < trial.nodes && !is_impossible && step.results[trial.first + places].status == DRAWN) {
            const double* const p = step.laws + uint64_t(trial.first + places) * vocabulary;
            const Other q = {trial.drawn[places], trial.tokens[places]};
            // Every thread writes the same.
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
        uint32_t token = 0xffffffffu;
        if (step.results[trial.first + length].status == DRAWN) {
            double* const p = step.laws + uint64_t(trial.first + length) * vocabulary;
            if (length < places) residual(p, trial.shares[length], {trial.drawn[length], trial.tokens[length]});
            token = draws(length, p);
        }
        __syncthreads();
        if (threadIdx.x != 0) return;
        trial.length = length;
        for (uint32_t i = 0; i < length; i++) step.results[trial.first + i].token = trial.tokens[i];
        if (token != 0xffffffffu) step.results[trial.first + length].token = token;
    }
};

__device__ __forceinline__ void judge_draft(const Step& step) {
    __shared__ Judge judge;
    Trial& trial = step.trials[blockIdx.x];
    const Sequence& sequence = step.sequences[trial.slot];
    if (threadIdx.x == 0) {
        judge.vocabulary = step.vocabulary;
        judge.noise = {sequence.seed, sequence.position, sequence.sequence, sequence.round};
    }
    __syncthreads();
    if (trial.is_block) judge.judge_block(step, trial);
    else judge.reject(step, trial);
}
