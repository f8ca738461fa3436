// Requests of an engine that keeps their texts itself: before a step, sequences take over texts where the
// engine has them; after it, tokens go where the engine wants them.
//
// The naive way, for each request, in crates/onedraw/src/state/history.rs and in
// crates/onedraw-python/src/table.rs:
//
//     follow: count every token of the text that penalties see; keep the last tokens; position = tokens of the
//             output; mu = where mirostat stood after so many of them
//     settle: for each row of the request, as long as the token of the row before is the guess:
//                 token[row] = what the row drew
//                 logprobs[row] = the drawn token, then the best tokens in their order
//                 set[row] = the ids of the tokens that were kept, in their order
//             append these tokens to the sequence
//
// What this code does differently:
//
// 1. A thread block follows a text with all its threads: counts are changed by atomics, in any order, and the
//    first thread that sets the bit of a token in `touched` enters the token into the list.
// 2. A list begins with the drawn token, the best others after it (report/report.cuh, report/raw_logprobs.cuh): its place
//    among them is its rank.
// 3. Where mirostat stood after each token of the output stays in device memory while a request is away, and so does the
//    number of these tokens. A text that comes back may lack the last of them: then mu goes back with it.
// 4. A set is handed out as bits, as `report` wrote it, and its first ids beside them. Each thread takes a stretch of
//    the bits; where its ids begin is the number of bits in the stretches before.
//
// Counts are sums of integers and lists of touched tokens have no order that matters (history.cuh), so it is
// the same text that the naive loop follows (1). A rank is a place in one order of all tokens (2). Nothing is
// computed again of what was learned (3), and counting bits is exact (4).
#pragma once

#include "history.cuh"

// One request's part of a step: rows in sequence, the first right after its text, the others after guesses.
struct Turn {
    // Where the engine keeps the text: the prompt, then the output.
    const uint32_t* text;
    // The guesses: the first leads to the second row. They need not be tokens. Null where there is one row.
    const uint32_t* guesses;
    // The sequence; the place of the text's length in `text_lengths`.
    uint32_t slot, place;
    uint32_t first, rows;
    // How many tokens of the text the model must have read before anything is drawn.
    uint32_t needed;
    // Whether the first token of the order is taken whatever is drawn: it is listed with what is drawn.
    uint32_t takes_best;
    // Whether the sequence is new and follows the text first.
    uint32_t is_new;
    uint32_t reserved;
};

// All that these two kernels read and write.
struct Requests {
    Sequence* sequences;
    const Turn* turns;
    const Outcome* results;
    const Report* reports;
    const Entry* entries;
    // For each text its length, without the tokens of this step.
    const uint32_t* text_lengths;
    // For each turn how many tokens of the text and of its guesses the model has read with this step; null:
    // all.
    const uint32_t* read_lengths;
    // For each row whether the guess that leads to it must not be taken; null: every guess may be.
    const uint8_t* refused;
    // For each turn its tokens, in rows of `token_width`; how many there are; how many rows are left over; of a
    // row that could not be drawn 65,536 times its status, plus the number of tokens before it, or 0.
    int64_t* tokens;
    int32_t *counts, *rejected, *failures;
    // For each row of a token, in rows of `best` + 1: the token and the best ones, and their logprobs; and the
    // rank of the token. Null: nobody asks.
    int32_t* listed_tokens;
    float* listed_logprobs;
    int64_t* ranks;
    uint32_t token_width, best;
    // Entries of a row: where rows begin in `entries`.
    uint32_t width;
    uint32_t vocabulary;
    // What `report` wrote of kept tokens, as `Step` has it, and the words from one row to the next.
    const uint32_t* kept_bits;
    // For each token of a turn, in rows of `token_width`: the kept tokens as bits, in whole vectors of 128; the first
    // `set_width` of their ids; how many there are, 0 where there is no token. Null: nobody asks.
    uint4* set_bits;
    int32_t *set_ids, *set_counts;
    uint32_t kept_pitch, set_width;
};

// The number of output tokens after which it is known where mirostat stood. It lies before `mus`.
__device__ __forceinline__ uint64_t& known_mus(const Sequence& sequence) { return reinterpret_cast<uint64_t*>(sequence.mus)[-1]; }

// Lets mirostat stand where it stood after the text's output. Nothing is learned from tokens that were not drawn here.
__device__ __noinline__ void recall(Sequence& sequence) {
    const uint32_t written = min(sequence.position, sequence.mu_room - 1), known = uint32_t(min(known_mus(sequence), uint64_t(written)));
    const double mu = sequence.mus[known];
#pragma unroll 1
    for (uint32_t i = known + 1; i <= written; i++) sequence.mus[i] = mu;
    sequence.mu = mu;
    known_mus(sequence) = written;
}

// One text for each thread block.
__device__ __forceinline__ void follow_texts(const Requests& requests) {
    const Turn turn = requests.turns[blockIdx.x];
    if (!turn.is_new) return;
    Sequence& sequence = requests.sequences[turn.slot];
    const uint32_t length = requests.text_lengths[turn.place], prompt = sequence.prompt, window = sequence.window;
    uint2* const counts = sequence.counts;
    if (counts != nullptr) {
        for (uint32_t token = threadIdx.x; token < requests.vocabulary; token += blockDim.x) counts[token] = make_uint2(0, 0);
        __syncthreads();
        const uint32_t first_counted = window > 0 && length > window ? length - window : 0;
        for (uint32_t i = first_counted + threadIdx.x; i < length; i += blockDim.x) {
            const uint32_t token = turn.text[i];
            // Ids that stand for a picture are no tokens.
            if (token >= requests.vocabulary) continue;
            atomicAdd(i < prompt ? &counts[token].x : &counts[token].y, 1);
            touch(sequence, token);
        }
    }
    // A text that is not there yet counts as far as its prompt. The host has given it room.
    const uint32_t room = sequence.room, kept = room > 0 ? min(max(length, prompt), room) : max(length, prompt);
    for (uint32_t i = threadIdx.x; i < kept && room > 0; i += blockDim.x) {
        const uint32_t token = i < length ? turn.text[i] : NO_TOKEN;
        sequence.history[i] = token < requests.vocabulary ? token : NO_TOKEN;
    }
    if (threadIdx.x == 0) {
        sequence.length = kept;
        sequence.position = kept - min(prompt, kept);
        if (sequence.mu_room > 0) recall(sequence);
    }
}

// A list as it was written: the drawn token, then the best others in their order.
struct Listed {
    const Entry* entries;
    uint32_t count;

    // Where the drawn token stands among all of them, if it does.
    __device__ __forceinline__ uint32_t place() const { return min(entries[0].rank - 1, count - 1); }
    __device__ __forceinline__ bool is_among() const { return entries[0].rank == place() + 1; }
    // How many there are in one order, and the i-th of them.
    __device__ __forceinline__ uint32_t ordered() const { return count - 1 + is_among(); }
    __device__ __forceinline__ const Entry& in_order(uint32_t i) const {
        if (i < place()) return entries[i + 1];
        if (!is_among()) return entries[i + 1];
        return entries[i == place() ? 0 : i];
    }
};

// Writes the list of one row, by a whole thread block. Where it is short, the first ids that it does not have
// follow, with -inf.
__device__ __noinline__ void write_listed(const Requests& requests, uint32_t row, const Listed& listed, bool takes_best) {
    int32_t* const tokens = requests.listed_tokens + uint64_t(row) * (requests.best + 1);
    float* const logprobs = requests.listed_logprobs + uint64_t(row) * (requests.best + 1);
    const uint32_t known = min(listed.ordered(), requests.best);
    for (uint32_t i = threadIdx.x; i <= known; i += blockDim.x) {
        const Entry& entry = i > 0 ? listed.in_order(i - 1) : takes_best ? listed.in_order(0) : listed.entries[0];
        tokens[i] = int32_t(entry.token);
        logprobs[i] = float(entry.value);
        if (i == 0) requests.ranks[row] = entry.rank;
    }
    uint32_t next = known + 1;
#pragma unroll 1
    for (uint32_t id = 0; next <= requests.best; id++) {
        bool is_listed = false;
        for (uint32_t i = threadIdx.x; i < listed.count && id < requests.vocabulary; i += blockDim.x) is_listed |= listed.entries[i].token == id;
        if (__syncthreads_or(is_listed)) continue;
        if (threadIdx.x == 0) {
            tokens[next] = int32_t(id < requests.vocabulary ? id : listed.entries[0].token);
            logprobs[next] = negative_infinity();
        }
        next++;
    }
}

// Writes the set of one row, by a whole thread block: it is that of token `place` of all turns.
__device__ __noinline__ void write_set(const Requests& requests, uint32_t row, uint64_t place) {
    __shared__ uint32_t of_warps[SETTLE_THREADS / 32];
    const uint32_t lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const uint32_t vectors = (requests.vocabulary + 127) / 128, stretch = (vectors + SETTLE_THREADS - 1) / SETTLE_THREADS;
    const uint32_t first = threadIdx.x * stretch, end = min(first + stretch, vectors);
    const uint4* const bits = reinterpret_cast<const uint4*>(requests.kept_bits + uint64_t(row) * requests.kept_pitch);
    uint4* const written = requests.set_bits + place * vectors;
    int32_t* const ids = requests.set_ids + place * requests.set_width;
    uint32_t own = 0;
#pragma unroll 4
    for (uint32_t i = first; i < end; i++) {
        const uint4 four = bits[i];
        written[i] = four;
        own += __popc(four.x) + __popc(four.y) + __popc(four.z) + __popc(four.w);
    }
    uint32_t upto = own;
#pragma unroll
    for (int offset = 1; offset < 32; offset <<= 1) {
        const uint32_t other = __shfl_up_sync(ALL_LANES, upto, offset);
        if (lane >= offset) upto += other;
    }
    __syncthreads();
    if (lane == 31) of_warps[warp] = upto;
    __syncthreads();
    uint32_t next = upto - own, total = 0;
#pragma unroll 1
    for (uint32_t i = 0; i < SETTLE_THREADS / 32; i++) {
        next += i < warp ? of_warps[i] : 0;
        total += of_warps[i];
    }
    if (threadIdx.x == 0) requests.set_counts[place] = int32_t(total);
    const uint32_t* const words = reinterpret_cast<const uint32_t*>(bits);
#pragma unroll 1
    for (uint32_t i = 4 * first; own > 0 && i < 4 * end && next < requests.set_width; i++) {
#pragma unroll 1
        for (uint32_t word = words[i]; word != 0 && next < requests.set_width; word &= word - 1) ids[next++] = int32_t(32 * i + __ffs(word) - 1);
    }
}

// One turn for each thread block.
__device__ __forceinline__ void settle_turns(const Requests& requests) {
    __shared__ uint32_t drawn_rows;
    const uint32_t number = blockIdx.x;
    // Turns are copied by the stream, not written by the kernel before: they may be read before the wait.
    const Turn turn = requests.turns[number];
    wait_for_the_one_before();
    Sequence& sequence = requests.sequences[turn.slot];
    const bool has_list = requests.listed_tokens != nullptr && sequence.logprobs > 0;
    const auto list_of = [&](uint32_t row) { return Listed{requests.entries + uint64_t(row) * requests.width, requests.reports[row].entry_count}; };
    if (threadIdx.x == 0) {
        const uint32_t read = requests.read_lengths != nullptr ? requests.read_lengths[number] : 0xffffffffu;
        const bool is_complete = read >= turn.needed;
        // A text that was still being read before this step had nothing that guesses could follow.
        const uint32_t rows = read >= turn.needed + turn.rows ? turn.rows : 1;
        int64_t* const tokens = requests.tokens + uint64_t(number) * requests.token_width;
        uint32_t count = 0, status = DRAWN;
#pragma unroll 1
        for (uint32_t row = turn.first; row < turn.first + rows; row++) {
            const Outcome outcome = requests.results[row];
            status = outcome.status;
            if (status != DRAWN) break;
            const uint32_t token = turn.takes_best ? list_of(row).in_order(0).token : outcome.token;
            tokens[count] = token;
            if (is_complete) append(sequence, &sequence, token);
            if (is_complete && sequence.mirostat) set_mu(sequence, requests.reports[row].mu);
            count++;
            const bool is_guessed = row + 1 < turn.first + rows && turn.guesses[count - 1] == token;
            if (!is_guessed || (requests.refused != nullptr && requests.refused[row + 1])) break;
        }
        for (uint32_t i = count; i < requests.token_width; i++) tokens[i] = 0;
        if (sequence.mu_room > 0) known_mus(sequence) = sequence.position;
        drawn_rows = count;
        // A request without a token ends with an error, and until then counts as one that has one.
        count = is_complete ? max(count, 1u) : 0;
        requests.counts[number] = count;
        requests.rejected[number] = is_complete ? turn.rows - count : 0;
        requests.failures[number] = is_complete && status != DRAWN ? int32_t(status << 16 | drawn_rows) : 0;
    }
    __syncthreads();
#pragma unroll 1
    for (uint32_t i = 0; has_list && i < drawn_rows; i++) write_listed(requests, turn.first + i, list_of(turn.first + i), turn.takes_best);
    if (requests.set_counts == nullptr) return;
    const uint64_t place = uint64_t(number) * requests.token_width;
    const uint32_t sets = sequence.kept == KEEP_IDS ? drawn_rows : 0;
#pragma unroll 1
    for (uint32_t i = 0; i < sets; i++) write_set(requests, turn.first + i, place + i);
    for (uint32_t i = sets + threadIdx.x; i < requests.token_width; i += blockDim.x) requests.set_counts[place + i] = 0;
}
