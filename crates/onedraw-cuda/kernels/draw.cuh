// The second pass: one thread block draws one row's token. It reads again only those blocks of the row that
// could change its answer.
//
// The naive loop, for one row (crates/onedraw/src/reference/ is the definition):
//
//     for each token: logit[token] = what masks and edits make of it
//     kept = the tokens alive, sorted by (logit descending, id ascending)
//     for each truncation: kept = the part of kept that it keeps
//     if greedy: return the first of kept
//     for each token of kept: score[token] = (logit[token] - x_max) / T - ln(exponential of the token)
//     return the token with the largest score, the lower id of equals
//
// What the draw does differently, each with its reasons in the file that is named:
//
// 1. It starts from what the first pass knows of blocks (skyline.cuh): the largest logit, the gain by noise,
//    the estimated mass. All of it lies in shared memory, and most questions are answered from there.
// 2. Edits are computed for few tokens, and the numbers of their blocks are corrected (repair.cuh).
// 3. Truncations are asked about the winner, or about few tokens, instead of being made (truncate.cuh,
//    list.cuh, nucleus.cuh). Those that cannot be asked, and rows that are reported after truncation, get
//    their last kept token searched (cut.cuh).
// 4. The race computes f32 scores of the blocks that could win, and f64 scores only of tokens that f32 cannot
//    tell apart (race.cuh).
// 5. The thread block begins before the first pass has ended, prepares what does not need it, and then waits
//    (row.cuh).
//
// Why this is exact: f32 numbers decide only which blocks and tokens are looked at, always with a margin that
// covers their error; every comparison that could change the answer is made with the numbers of the
// definition, which are integers or f64 numbers computed in its order.
//
// **Where the methods are.** `Draw` is one struct for the sake of its shared memory; its methods are defined
// in several headers, which this file includes at its end.
//
// | header | methods |
// |---|---|
// | draw.cuh | sums and maxima over all threads; `leader` |
// | blocks.cuh | `collect*`, `over*`, `before_key`, `apply_edits*`, `append_key`, `census`: listing blocks |
// | | and reading them |
// | row.cuh | `prepare`, `draw`, `finish`, `emptied_by`, and the kernels' bodies `draw_rows`, `draw_edited` |
// | repair.cuh | `link`, `change`, `change_listed`, `change_touched`, `repair`, `repair_masses` |
// | truncate.cuh | `truncated`, `race_first`, `race_all` |
// | list.cuh | `depth_with`, `depth_of`, `gather`, `race_few`, `list`, `sort`, `passing`, `top_p` and |
// | | `race_listed` |
// | nucleus.cuh | `add_best`, `total_mass`, `total_opened`, `reach_of_nucleus`, `mass_before`, |
// | | `mass_opened`, `is_in_nucleus` |
// | race.cuh | `scored`, `open`, `race`, `decided` |
// | cut.cuh | `crossed`, `select`, `lowest_where`, `latest`, `spread`, `cut_cutoff`, `cut_sigma`, |
// | | `cut_typical`, `cut_nucleus`, `listed_nucleus`, `cut` |
// | xtc.cuh, mirostat.cuh, heat.cuh, smooth.cuh | one stage each |
// | narrow.cuh | `narrow`, `find_peaks`: a later segment |
// | report.cuh | `report`, `left_here`, `best_listed`; then the sums over rows, by many thread blocks |
// | raw_logprobs.cuh | `list_raw_best`, `write_raw_logprobs`, `tokens_before`, in a kernel beside the draw |
// | verify.cuh | `write_law`; then the judging of drafts |
//
// **The way of a row**, in this order:
//
//     finish                 one row; row.cuh
//       draw
//         prepare, link      before the wait: copy the record, link the edited tokens   (not for bare rows)
//                            then wait for the first pass, and fetch its arrays into shared memory
//         change_listed      edited tokens that are in the table, or ...                (rows with edits)
//         change_touched     ... all edited tokens, where they are too many for it
//         repair             blocks whose best token was lowered are read again
//         emptied_by         only if no token is alive: which edit removed the last one
//         leader             greedy rows: the first token of the order
//         truncated          plain chains (MIN_P, TOP_K, TOP_P): total_mass, then gather and race_few,
//                            or race_first, or race_all
//         cut, race          other chains: the last kept token, then the race before it
//         write_law          rows of drafts that are judged by laws, instead of a draw
//         report             rows that report logprobs after truncation
//       append               history.cuh: the sequence moves on
//
// **What lies where in shared memory.** The members of `Draw` are static shared memory. Dynamic shared memory
// (`memory`) is four arrays with one word for each of `padded_blocks` blocks: `highest()`, `gains()`,
// `masses()` and `work()`. Two places are used for several things, one after the other:
//
// | memory | from | until | holds |
// |---|---|---|---|
// | work() | fetch in `draw` | `total_mass` (or the first list) | references of the row's groups |
// | | `change` | `repair` | the `others` blocks that lost their best token |
// | | `collect*` | the next list | the `count` listed blocks |
// | | `race` begins | `race` ends | the bounds of all blocks, as f32 |
// | keys | fetch in `draw` | `change_listed` | the table's entries from the first pass (`entries()`) |
// | | `prepare` | `repair` | behind the entries: one bit per block that lost its best token (`lost()`) |
// | | `change_touched` | its end | tokens that an edit may change |
// | | `gather`, `append_key` | the next list | listed keys |
// | | `race_few` | its end | upper half: weights of the listed tokens, then the tokens that are close |
// | | `race` begins | `race` ends | blocks that are opened next |
// | | `crossed` | its end | LIST_CAPACITY sums |
// | | `write_law` | its end | f64 sums of the threads |
//
// A row goes through this code once, so its instructions are read from memory rather than from a cache: the
// code is kept short. What functions need of the row lies in shared memory instead of in arguments, few
// functions are inlined, and loops are not unrolled (`#pragma unroll 1`) unless their reads should be under
// way together.
#pragma once

#include "beheaded.cuh"
#include "bend.cuh"
#include "history.cuh"
#include "list_all.cuh"
#include "limits.cuh"
#include "skyline.cuh"

template <typename T, Rows ROWS>
struct Draw {
    // Copies of the arguments and of the sequence: each read of device memory would take half a microsecond.
    Step step_copy;
    // The number of the row.
    uint32_t row;
    Sequence sequence;
    Place place;
    uint32_t slot;
    Adjustment adjustment;
    const T* logits;
    uint32_t vocabulary;
    // The number of blocks, rounded up to BLOCKS_ROUNDED_TO; those past the vocabulary hold nothing.
    uint32_t padded_blocks;
    // The largest logit as masks leave the row, and the largest of what is left after edits and truncations.
    float summit, x_max;
    // What is left lies below `above` and not below `lowest`.
    float above, lowest;
    // The row after its first segment (narrow.cuh); null before that.
    float* desk;
    // The operation that is taken, and those that follow it.
    Stage operation;
    const Stage *next_operation, *end_of_chain;
    // The mask of a later segment.
    const uint32_t* late_mask;
    // XTC: what comes before this is removed, unless it is protected. 0: nothing is.
    Key head;
    // The largest logit before smoothing, and whether logits are bent from here on.
    float bend_top;
    bool is_smoothed;
    // The temperature in force, where the entropy sets it: T and 1 / T.
    double heat, heat_inverse;
    // Where mirostat stands after the draw.
    double next_mu;
    // The sums of the whole row, if these were taken; a mass of 0 otherwise.
    Gauge whole;
    // Whether all that is reported is known.
    bool is_summed_here;
    // Whether the row has no masks and no edits.
    bool is_bare;
    // The last token that is kept, and the drawn token.
    Key last, drawn;
    // Results that one thread found for all.
    Key found_key;
    float found_logit;
    uint64_t found_number;
    // In a race: the f32 score of some token less its margin, as `order_of` codes it. What is lower cannot
    // win.
    int lead;
    // The race is among the tokens before this one.
    Key before;
    // Lengths of lists that are being written: blocks or keys, and a second list beside them.
    uint32_t count, others;
    // Bounds of the mass that TOP_P sees; {0, 0} as long as it is not known.
    Bounds total;
    // The lowest logit that MIN_P leaves, and the same where MIN_P stands before TOP_P; -inf otherwise.
    float bottom, bottom_before;
    // Where the first pass wrote the references of the row's groups; blocks of a row in device memory; blocks
    // of a group.
    const float* references;
    uint32_t pitch, group;
    // Results of single warps, for all.
    uint32_t tallies[2][WARPS];
    // What blocks add up to at each depth: 0 at first.
    alignas(16) uint32_t depth_histogram[DEPTHS];
    Census parts[WARPS];
    Finalist finalists[WARPS];
    float tops[WARPS];
    Key candidates[CANDIDATE_CAPACITY];
    float rough_scores[CANDIDATE_CAPACITY];
    alignas(16) Key keys[LIST_CAPACITY];
    // Scores of listed tokens: no more than half the list is raced.
    float listed_scores[LIST_CAPACITY / 2];
    // The table of the tokens that edits may change, and what edits make of them.
    alignas(16) uint32_t heads[ROWS == EDITED || ROWS == ANY ? EDIT_TABLE_HEADS : 1];
    uint32_t links[(ROWS == EDITED || ROWS == ANY) && EDIT_TABLE_CAPACITY > 0 ? EDIT_TABLE_CAPACITY : 1];
    float edited_logits[(ROWS == EDITED || ROWS == ANY) && EDIT_TABLE_CAPACITY > 0 ? EDIT_TABLE_CAPACITY : 1];
    // Without a table: one bit for each block that has such a token.
    uint32_t edited_blocks[ROWS == CROWDED || ROWS == ANY ? MAX_BLOCKS / 32 : 1];

    // For each block: its largest logit; what noise adds to it at most; its mass in f32, in units of the best
    // token's weight; and one word of working memory.
    __device__ __forceinline__ float* highest() const { return memory; }
    __device__ __forceinline__ float* gains() const { return memory + padded_blocks; }
    __device__ __forceinline__ float* masses() const { return memory + 2 * padded_blocks; }
    __device__ __forceinline__ uint32_t* work() const { return reinterpret_cast<uint32_t*>(memory + 3 * padded_blocks); }

    // A logit as masks, edits and smoothing leave it; -inf for a token past the vocabulary.
    __device__ __forceinline__ float at(uint32_t token) const {
        if (token >= vocabulary) return negative_infinity();
        if (ROWS == ANY && desk != nullptr) return desk[token];
        const float x = one(logits + token);
        if (ROWS == BARE || is_bare) return x;
        if (!is_tabulated()) return smoothed(Adjustment::adjusted(place, adjustment.touched, token, x));
        return smoothed(place.allows(token) ? tabulated(token, x) : negative_infinity());
    }
    // What smoothing makes of a logit, if it is on (smooth.cuh).
    __device__ __forceinline__ float smoothed(float x) const { return ROWS == ANY && is_smoothed ? bend_of(sequence).of(x, bend_top) : x; }

    // Whether a token is left: its logit is within `lowest` and `above`, and XTC has not removed it.
    __device__ __forceinline__ bool passes(float x, uint32_t token) const { return x >= lowest && x < above && (ROWS != ANY || head == 0 || !is_removed(sequence, head, x, token)); }

    // MIN_P: the lowest logit that is kept.
    __device__ __forceinline__ float lowest_of(double threshold) const { return lowest_within(double(x_max), threshold); }

    __device__ __forceinline__ Noise noise() const { return {sequence.seed, sequence.position + place.depth, sequence.sequence, sequence.round}; }

    // ---- over all threads ----

    // Two sums over all threads, which each thread gets.
    __device__ __noinline__ Census sum(uint64_t count, uint64_t mass) {
        const uint32_t lane = threadIdx.x & 31;
#pragma unroll 1
        for (int turn = 0; turn < 2; turn++) {
#pragma unroll
            for (int offset = 16; offset > 0; offset >>= 1) {
                count += __shfl_xor_sync(ALL_LANES, count, offset);
                mass += __shfl_xor_sync(ALL_LANES, mass, offset);
            }
            if (turn == 1) break;
            __syncthreads();
            if (lane == 0) parts[threadIdx.x >> 5] = {count, mass};
            __syncthreads();
            count = lane < WARPS ? parts[lane].count : 0;
            mass = lane < WARPS ? parts[lane].mass : 0;
        }
        return {count, mass};
    }

    // The best of a warp: the higher score, of equals the lower id.
    __device__ __noinline__ static Finalist best_of_warp(Finalist own) {
#pragma unroll 1
        for (int offset = 16; offset > 0; offset >>= 1) {
            const double score = __shfl_xor_sync(ALL_LANES, own.score, offset);
            const uint32_t token = __shfl_xor_sync(ALL_LANES, own.token, offset);
            const float logit = __shfl_xor_sync(ALL_LANES, own.logit, offset);
            if (score > own.score || (score == own.score && token < own.token)) own = {score, token, logit};
        }
        return own;
    }

    // The best of all threads.
    __device__ __noinline__ Finalist best(Finalist own) {
        const uint32_t lane = threadIdx.x & 31;
        own = best_of_warp(own);
        __syncthreads();
        if (lane == 0) finalists[threadIdx.x >> 5] = own;
        __syncthreads();
        return best_of_warp(finalists[lane & (WARPS - 1)]);
    }

    __device__ __forceinline__ static Finalist nobody() { return {-__longlong_as_double(0x7ff0000000000000ll), 0xffffffffu, negative_infinity()}; }

    // The largest of all threads' numbers.
    __device__ __forceinline__ float largest_of_all(float x) {
        x = largest_of_warp(x);
        __syncthreads();
        if ((threadIdx.x & 31) == 0) tops[threadIdx.x >> 5] = x;
        __syncthreads();
        return largest_of_warp(tops[threadIdx.x & (WARPS - 1)]);
    }

    // The largest of all threads' keys.
    __device__ __noinline__ Key largest_key(Key own) {
#pragma unroll
        for (int offset = 16; offset > 0; offset >>= 1) {
            const Key other = __shfl_xor_sync(ALL_LANES, own, offset);
            own = other > own ? other : own;
        }
        __syncthreads();
        if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5].mass = own;
        __syncthreads();
        for (uint32_t i = 0; i < WARPS; i++) own = parts[i].mass > own ? parts[i].mass : own;
        return own;
    }

    // Two sums over all threads, in 32 bits.
    __device__ __forceinline__ uint2 tallied(uint2 own) {
        const uint32_t lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
        own = make_uint2(__reduce_add_sync(ALL_LANES, own.x), __reduce_add_sync(ALL_LANES, own.y));
        __syncthreads();
        if (lane < 2) tallies[lane][warp] = lane == 0 ? own.x : own.y;
        __syncthreads();
        const bool is_one = lane < WARPS;
        return make_uint2(__reduce_add_sync(ALL_LANES, is_one ? tallies[0][lane & (WARPS - 1)] : 0), __reduce_add_sync(ALL_LANES, is_one ? tallies[1][lane & (WARPS - 1)] : 0));
    }

    // The sum over all threads of numbers below 2^45. A sum of 32-bit numbers over a warp is one instruction,
    // so the numbers are summed in two halves of 22 and 23 bits: 32 of these stay below 2^32.
    __device__ __forceinline__ uint64_t amount(uint64_t own) {
        constexpr uint32_t HALF = 22;
        const uint32_t lane = threadIdx.x & 31;
        own = (uint64_t(__reduce_add_sync(ALL_LANES, uint32_t(own >> HALF))) << HALF) + __reduce_add_sync(ALL_LANES, uint32_t(own) & ((1u << HALF) - 1));
        __syncthreads();
        if (lane == 0) parts[threadIdx.x >> 5].mass = own;
        __syncthreads();
        own = lane < WARPS ? parts[lane].mass : 0;
        return (uint64_t(__reduce_add_sync(ALL_LANES, uint32_t(own >> HALF))) << HALF) + __reduce_add_sync(ALL_LANES, uint32_t(own) & ((1u << HALF) - 1));
    }

    // ---- over blocks: blocks.cuh ----

    // Lists the blocks for which `flags(quad)` has a bit set, one of four bits for each block of a vector;
    // returns how many. `others` becomes 0. Few blocks are listed in most cases, so that a thread which has
    // some takes their places in the list by itself, with one atomic.
    template <typename Flags>
    __device__ __forceinline__ uint32_t collect_fours(Flags flags);
    // Lists the blocks for whose number in an array `reaches` is true.
    template <typename Reaches>
    __device__ __forceinline__ uint32_t collect_where(const float* numbers, Reaches reaches);
    // Lists the blocks with a token alive whose largest logit is at least `reach`.
    __device__ __noinline__ uint32_t collect(float reach);
    // Four consecutive tokens of the unmodified row; -inf past the vocabulary.
    __device__ __forceinline__ float4 four_at(const T* row_logits, uint32_t token, uint32_t tokens) const;
    // Goes over the first `listed` blocks of the list, one for each half warp and AT_ONCE of them together:
    // calls `each(x, start)`, where x[i] are four unmodified tokens of the block at place `start + i *
    // HALVES` of the list, if there is one. Lane 0 of the half warp has the first four tokens, lane 1 the
    // next four, and so on.
    template <uint32_t AT_ONCE, typename Each>
    __device__ __forceinline__ void over_fours(uint32_t listed, Each each);
    // Calls `each(x, token)` for every token of the first `listed` blocks of the list, as masks and edits
    // leave it: one warp per block, two tokens per lane. The reads of the next AHEAD blocks are under way
    // meanwhile.
    template <typename Each>
    __device__ __forceinline__ void over(uint32_t listed, Each each);
    // Four tokens of the block at place `of` of the list: applies masks and edits to them.
    __device__ __forceinline__ void apply_edits_listed(float4& x, uint32_t of, uint32_t listed) const;
    // Applies masks, edits and smoothing to four consecutive tokens; and without smoothing.
    __device__ __forceinline__ void apply_edits(float4& x, uint32_t token) const;
    __device__ __forceinline__ void apply_edits_alone(float4& x, uint32_t token) const;
    // Goes over the blocks that reach a key: calls `each(x, is_before)` for four tokens at a time, with which
    // of them come before the key.
    template <typename Each>
    __device__ __forceinline__ void before_key(Key key, Each each);
    // Appends the keys of some lanes to the list. All lanes of the warp come here; what does not fit is
    // counted only.
    __device__ __forceinline__ void append_key(bool is_in, Key key);
    // Number and mass of the tokens up to and including `last` that pass.
    __device__ __noinline__ Census census(Key last, float scale);

    // ---- MIN_P, TOP_K and TOP_P in a race: truncate.cuh ----

    // The stage of TOP_P, or null.
    __device__ __forceinline__ const Stage* nucleus() const { return sequence.top_p_place < MAX_STAGES ? &sequence.stage[sequence.top_p_place] : nullptr; }
    // Whether the first pass has no bounds of the mass that TOP_P sees, because it does not stand first or
    // the estimates are lost: its total must be summed exactly.
    __device__ __forceinline__ bool is_unbounded() const { return sequence.top_p_place != 0 || total.most == 0; }

    // The winner of the race among what all stages keep.
    __device__ __noinline__ uint32_t truncated();
    // With the first k tokens listed and sorted; NO_TOKEN if they do not fit the list.
    __device__ __noinline__ uint32_t race_first();
    // Races among all that may be kept, until the winner is kept.
    __device__ __noinline__ uint32_t race_all(float reach);

    // ---- the cuts of single stages: cut.cuh ----

    // The token in which unit number `unit` of a measure lies, counted in the order from 0, among the tokens
    // up to `last` that pass; key_end() if there is less. A scale of 0 counts tokens, any other sums weights.
    __device__ __noinline__ Key select(float scale, uint64_t unit, Key last);

    // Sums the tokens up to `last` that pass into bins: `measure(x, bin)` sets the bin of a token and returns
    // what it adds. Returns the bin that unit number `unit` lies in, and leaves in `found_number` which unit
    // of that bin it is.
    template <typename Measure>
    __device__ __forceinline__ uint32_t crossed(uint64_t unit, Key last, Measure measure);

    // The lowest logit for which `holds`, which must hold for a run of logits that begins with `from`; +inf
    // if it does not hold there.
    template <typename Holds>
    __device__ __forceinline__ float lowest_where(float from, Holds holds);

    // The last token that a stage keeps of those up to `last`: EPSILON, ETA and TOP_A; TOP_N_SIGMA; TYPICAL;
    // TOP_P.
    __device__ __noinline__ Key cut_cutoff(const Stage& stage);
    __device__ __noinline__ Key cut_sigma(const Stage& stage, Key last);
    __device__ __noinline__ Key cut_typical(const Stage& stage, Key last);

    __device__ __noinline__ Key cut_nucleus(const Stage& stage);
    __device__ __noinline__ Key listed_nucleus(const Stage& stage);
    // Sums over the tokens that are left.
    __device__ __noinline__ Gauge spread(float scale, bool has_surprises);
    // Whether no operation has removed anything yet.
    __device__ __forceinline__ bool is_whole() const { return desk == nullptr && head == 0 && last == key_end() && above == positive_infinity() && lowest == negative_infinity(); }
    // The last token up to `last` that is left, and how many there are.
    struct Latest {
        Key key;
        uint64_t count;
    };
    __device__ __noinline__ Latest latest(Key last);

    // Removes the top choices, if the coin says so: raises `head`, and lowers x_max. (xtc.cuh)
    __device__ __noinline__ void remove_top_choices(const Stage& stage);
    // The last token that MIROSTAT keeps. (mirostat.cuh)
    __device__ __noinline__ Key cut_mirostat(const Stage& stage);
    // Where it stands once a token is drawn, of which the logarithm of the mass of what is left is known.
    __device__ __noinline__ double learned(uint32_t token, double ln_mass) const;
    // Learns from the drawn token (NO_TOKEN: there is none yet), and tells the rows after guesses.
    __device__ __noinline__ void learn(uint32_t token);
    // Whether the row is drawn in this launch.
    __device__ __forceinline__ bool is_due(const Step& step) const;
    // HEAT: sets the temperature by the entropy of what is left. (heat.cuh)
    __device__ __noinline__ void set_heat(const Stage& stage);
    // Smoothing. (smooth.cuh)
    __device__ __noinline__ void smooth(Bend bend, bool is_on_desk);
    // Begins a segment. Returns the edit that removed the last token, NO_EDIT if some are left. (narrow.cuh)
    __device__ __noinline__ uint32_t narrow(const Stage& stage);
    // Finds the largest logits of the desk.
    __device__ __noinline__ void find_peaks();
    // Whether the row has a mask, early or late: then it may have a chain of its own.
    __device__ __forceinline__ bool has_mask() const { return place.mask != nullptr || late_mask != nullptr; }
    // Whether the list of allowed ids and the mask leave a token, in a later segment.
    __device__ __forceinline__ bool allows_late(uint32_t token) const {
        return (sequence.late_allowed == nullptr || has_bit(sequence.late_allowed, token)) && (late_mask == nullptr || has_bit(late_mask, token)) && place.allows(token);
    }

    // Takes all operations of the chain: finds the last token that they keep, `last`. TYPICAL may also lower `above`.
    // Returns the edit that removed the last token, NO_EDIT if some are left.
    __device__ __noinline__ uint32_t cut();

    // ---- what is reported: report.cuh, raw_logprobs.cuh ----

    // Reports of what is left of the row; where that is much, `sum_report` completes it.
    __device__ __noinline__ void report(uint32_t token);
    // The mass of what is left, the last kept token, how many there are, and how many tokens come before the drawn one.
    struct Left {
        uint64_t mass;
        Key last;
        uint32_t count, rank;
    };
    __device__ __noinline__ Left left_here();
    // Lists the best tokens, sorted: at least so many, or all there are. Returns how many.
    __device__ __noinline__ uint32_t best_listed(uint32_t wanted);
    // Begins with a row that is not drawn.
    __device__ __forceinline__ void begin_raw(const Step& step, uint32_t number);
    // Logprobs of the unmodified row: lists its best tokens, at least so many, before the token is known.
    // Returns how many.
    __device__ __forceinline__ uint32_t list_raw_best(const Step& step, const Task& task, uint32_t wanted);
    // Writes the entries, once the token and the mass of the row are known. `before`: how many tokens come before
    // the token, NOT_LISTED if nobody has counted them.
    __device__ __forceinline__ void write_raw_logprobs(const Step& step, uint32_t listed, uint32_t known, bool is_logits, uint32_t token, uint64_t mass, uint32_t before);
    // How many tokens come before a key.
    __device__ __noinline__ uint32_t tokens_before(Key key);

    // ---- edits of single tokens: repair.cuh ----

    // Whether the table has room for all tokens that an edit may change, and whether this form has one.
    __device__ __forceinline__ bool fits() const { return sequence.edit_list_length + place.depth <= EDIT_TABLE_CAPACITY; }
    __device__ __forceinline__ bool is_tabulated() const { return ROWS == EDITED || (ROWS == ANY && fits()); }
    // The entries of the table as the first pass wrote them: x the unmodified logit, y the edited one. Until
    // `change_listed`.
    __device__ __forceinline__ float2* entries() { return reinterpret_cast<float2*>(keys); }
    // One bit for each block that lost its best token, until `repair`. These blocks are also listed, `others`
    // of them.
    __device__ __forceinline__ uint32_t* lost() { return reinterpret_cast<uint32_t*>(keys + EDIT_LIST_CAPACITY); }
    // Calls `each(other, entry)` for the entries of the table that may be of the token's block.
    template <typename Each>
    __device__ __forceinline__ void over_linked(uint32_t token, Each each) const {
#pragma unroll 1
        for (uint32_t entry = heads[token / BLOCK % EDIT_TABLE_HEADS]; entry != END_OF_LINKS;) {
            const uint32_t link = links[entry];
            each(link & LINK_TOKEN_MASK, entry);
            entry = link >> LINK_SHIFT;
        }
    }
    // What edits make of a token; x if it is not in the table.
    __device__ __forceinline__ float tabulated(uint32_t token, float x) const {
        over_linked(token, [&](uint32_t other, uint32_t entry) { x = other == token ? edited_logits[entry] : x; });
        return x;
    }
    // What edits make of four consecutive tokens, without a table.
    __device__ __noinline__ float4 edited_four(float4 x, uint32_t token) const {
        adjustment.apply(x, token, place, adjustment.word(token));
        return x;
    }
    // Whether the drawn token is one that edits may change already.
    __device__ __forceinline__ Touched is_touched(uint32_t token) const {
        if (!is_tabulated() || adjustment.touched == nullptr) return NOBODY_KNOWS;
        Touched found = IS_NEW;
        over_linked(token, [&](uint32_t other, uint32_t) { found = other == token ? IS_TOUCHED : found; });
        return found;
    }
    // Enters the tokens of the list, of which each thread brings EDITS_PER_THREAD, and those of the draft
    // into the table. It needs nothing of the first pass.
    __device__ __noinline__ void link(uint32_t first, uint32_t second, uint32_t third);
    // Corrects the block of a token whose logit is not the one that the first pass saw.
    __device__ __forceinline__ void change(uint32_t token, float x, float edited);
    // Corrects the blocks of all tokens of the table.
    __device__ __noinline__ void change_listed();
    // Corrects the blocks of all tokens that an edit may change, without a table.
    __device__ __noinline__ void change_touched();
    // Reads the blocks again that lost their best token.
    __device__ __noinline__ void repair();
    // Computes the masses of edited blocks anew, in units of what the best token weighs.
    __device__ __noinline__ void repair_masses(float scale);

    // ---- verification: verify.cuh ----

    // The distribution that a token is drawn from: a probability for every token, 0 for those that are not
    // kept.
    __device__ __noinline__ void write_law(double* law, Key last);

    // ---- the race: race.cuh ----

    // A token's score in f64: the definition.
    __device__ __noinline__ Finalist scored(Key key) const;

    // Scores the tokens of one block for each half warp in f32, four tokens per lane, and keeps those that
    // could win.
    __device__ __forceinline__ void open(uint32_t block);

    // The winner among the tokens before a key that pass.
    __device__ __noinline__ Finalist race(Key end);

    // The winner among the candidates; where these were too many, among all tokens of the race.
    __device__ __noinline__ Finalist decided();

    // ---- the first tokens of the order, listed: list.cuh ----

    // The depth of a logit.
    __device__ __forceinline__ uint32_t depth(float x) const {
        const uint32_t bits = __float_as_uint(x_max - x) >> 19;
        return bits <= DEPTH_LOWEST ? 0 : min(bits - DEPTH_LOWEST, 255u);
    }

    // The distance at which a depth ends.
    __device__ __forceinline__ static float depth_ends(uint32_t depth) { return depth >= 255 ? positive_infinity() : __uint_as_float((DEPTH_LOWEST + depth + 1) << 19); }

    // Sets the histogram of depths to 0.
    __device__ __forceinline__ void clear_depths() {
        __syncthreads();
        if (threadIdx.x < DEPTHS) depth_histogram[threadIdx.x] = 0;
        __syncthreads();
    }

    // The depth down to which the histogram adds up to `enough`; the last depth if there is less.
    __device__ __noinline__ uint32_t depth_with(uint32_t enough);

    // A depth that at least k blocks reach, and few more.
    __device__ __noinline__ uint32_t depth_of(uint32_t k);

    // Lists the tokens that are nearer to the best logit than `distance`, unsorted; returns how many there
    // are.
    __device__ __noinline__ uint32_t gather(float distance);

    // A token's score in f32.
    __device__ __forceinline__ float rough_score(uint32_t token, float x, float gain) const {
        const float minimum = power_of(gain * -LOG2_E_F32), later = minimum + rough_exponential(word(words(noise(), TOKEN, token / 4), token % 4));
        return (x - x_max) * float(sequence.inverse) - rough_ln((__float_as_uint(gain) & LANE_BITS) == token % BLOCK ? minimum : later);
    }

    // The winner among those of a few listed tokens that the stages keep. The list is unsorted and has every
    // token that comes before one of its tokens. NO_TOKEN if the bounds of the total leave it open.
    __device__ __noinline__ uint32_t race_few(uint32_t listed);

    // Lists at least the first k tokens of the order, or all there are, sorted; returns how many, or 0 if
    // they do not fit.
    __device__ __noinline__ uint32_t list(uint32_t k);

    // Sorts the list.
    __device__ __noinline__ void sort(uint32_t listed);

    // How many of the first tokens of the sorted list pass.
    __device__ __noinline__ uint32_t passing(uint32_t listed);

    // How many of the first tokens of the sorted list TOP_P keeps, of a total mass; 0: of the mass of these
    // tokens.
    __device__ __noinline__ uint32_t top_p(const Stage& stage, uint32_t listed, uint64_t total);

    // The winner among the first tokens of the sorted list: in f32 first, as `race` does it.
    __device__ __noinline__ Finalist race_listed(uint32_t listed);

    // ---- the mass before a token: nucleus.cuh ----

    // Whether mass * 2^53 < share * total, in 128 bits: whether a mass is below a share, a fraction of 2^53,
    // of a total.
    __device__ __forceinline__ static bool is_below(uint64_t mass, uint64_t share, uint64_t total) {
        const uint64_t high = mass >> 11, low = mass << 53;
        const uint64_t other_high = __umul64hi(share, total), other_low = share * total;
        return high < other_high || (high == other_high && low < other_low);
    }

    // Bounds of a mass that was summed in f32 powers, in units of 2^-32 of the best token's weight (2^11 of a
    // mass). Every weight is rounded down, so each token may have lost 1; and each thread rounded its sum
    // down by less than one of the 2^11.
    __device__ __forceinline__ Bounds around(uint64_t sum) const {
        const uint64_t mass = sum << 11, error = (mass >> 14) + vocabulary;
        return {mass > error ? mass - error : 0, mass + error + (uint64_t(DRAW_THREADS) << 12)};
    }
    // A mass of f32, in units of the best token's weight, in units of 2^-32 of it.
    __device__ __forceinline__ static uint64_t units(float mass) { return __float2ull_rz(mass * 0x1p32f); }
    // Bounds of the mass of the whole row, by the first pass; and the masses of its blocks, for
    // `mass_before`. {0, 0} if the first pass cannot say.
    __device__ __noinline__ Bounds total_mass(float scale);
    // The same, exact for the blocks that have nearly all of it.
    __device__ __noinline__ Bounds total_opened(float scale);
    // Adds the weights of the best tokens of four blocks to the histogram at their depths: those that are
    // heavy, or the others.
    __device__ __forceinline__ void add_best(uint32_t quad, float scale, bool heavy);
    // How far below the best logit the nucleus can reach, by the largest logits of the blocks alone; +inf if
    // they do not say.
    __device__ __noinline__ float reach_of_nucleus(const Stage& stage);
    // Bounds of the mass before a token, by the largest logits and the masses of the blocks alone.
    __device__ __noinline__ Bounds mass_before(Key key, float scale);
    // The same by reading the blocks that reach the token, in f32.
    __device__ __noinline__ Bounds mass_opened(Key key, float scale);
    // Whether TOP_P keeps a token: asks the cheapest bounds first.
    __device__ __noinline__ bool is_in_nucleus(Key key);

    __device__ __forceinline__ void set_total(Bounds value) {
        __syncthreads();
        if (threadIdx.x == 0) total = value;
        __syncthreads();
    }

    // ---- a row from its beginning to its end: row.cuh ----

    // Does what needs nothing of the first pass: copies the arguments and the sequence, links edited tokens.
    // Returns whether this form can draw the row.
    __device__ __forceinline__ bool prepare(const Step& step, const Task& task);
    // What is wrong with the row, or what it draws. UNFIT: nothing is done yet, since this form cannot draw
    // the row.
    __device__ __forceinline__ Outcome draw(const Step& step);
    // Draws a row and writes what comes of it; returns whether this form could.
    __device__ __forceinline__ bool finish(const Step& step);
    // The edit that removed the last token: the first after which nothing is alive; NO_EDIT if nothing was
    // alive to begin with.
    __device__ __noinline__ uint32_t emptied_by() const;

    // Copies the largest logits of all blocks into shared memory, without waiting for them; -inf where there
    // is no block.
    __device__ __forceinline__ void fetch_peaks(float* to, const float* peaks, uint32_t pitch) const {
        fetch(to, peaks, pitch);
        const float low = negative_infinity();
#pragma unroll 1
        for (uint32_t quad = pitch / 4 + threadIdx.x; quad < padded_blocks / 4; quad += DRAW_THREADS) reinterpret_cast<float4*>(to)[quad] = make_float4(low, low, low, low);
    }

    // Copies `count` numbers from device memory into shared memory, without waiting for them.
    __device__ __forceinline__ void fetch(float* to, const float* from, uint32_t count) const {
#pragma unroll 1
        for (uint32_t quad = threadIdx.x; 4 * quad < count; quad += DRAW_THREADS) __pipeline_memcpy_async(reinterpret_cast<float4*>(to) + quad, reinterpret_cast<const float4*>(from) + quad, 16);
    }

    // Whether logprobs of the unmodified row are asked for: another kernel writes them (raw_logprobs.cuh).
    __device__ __forceinline__ bool is_raw() const { return sequence.logprobs > 0 && sequence.logprobs_mode <= RAW_LOGITS; }

    // The first token of the order.
    __device__ __noinline__ Finalist leader() {
        Finalist first = nobody();
        const float top = x_max;
        over(collect(top), [&](float x, uint32_t token) {
            if (x == top && token < first.token && passes(x, token)) first = {0.0, token, x};
        });
        return best(first);
    }

    __device__ __forceinline__ void set_lowest(float value) {
        __syncthreads();
        if (threadIdx.x == 0) lowest = value;
        __syncthreads();
    }
};

#include "blocks.cuh"
#include "cut.cuh"
#include "heat.cuh"
#include "list.cuh"
#include "mirostat.cuh"
#include "narrow.cuh"
#include "nucleus.cuh"
#include "race.cuh"
#include "repair.cuh"
#include "report.cuh"
#include "row.cuh"
#include "raw_logprobs.cuh"
#include "smooth.cuh"
#include "truncate.cuh"
#include "verify.cuh"
#include "xtc.cuh"
