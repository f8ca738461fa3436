// Masks and edits of single logits (crates/onedraw/src/stages/edit/: bans, allowed, bad_words, min_tokens,
// bias, penalty).
//
// The naive loop:
//
//     for each edit of the chain, in order:
//         for each token: logit[token] = edit(token, logit[token])
//
// What this code does differently:
//
// 1. The row is never written. `Place::edited` takes one token through all edits, one after the other, when
//    somebody needs its logit.
// 2. Only tokens whose logits an edit may change are looked at: a sequence keeps them as a bitmap (`touched`)
//    and as a list (`edit_list`). These are the ids of biases, the last ids of bad words, EOS and stop ids,
//    banned tokens, the tokens of the penalties' window, and the tokens of a draft.
// 3. Allowed ids and a grammar's mask are not edits here: they are applied to all tokens as bits, before the
//    edits.
// 4. Rows of a draft see the sequence's text with the draft's tokens after it; counts are corrected for these
//    tokens on the way (`Place::count`), and not stored.
//
// Why this is exact:
//
// - An edit of a token depends on the text and on this token's logit, never on other tokens (1). Each
//   operation is one rounded f32 operation in the chain's order, saturated as on the CPU.
// - Every other token is left as it is by every edit (2), which crates/onedraw/src/reference/edits.rs shows
//   edit by edit.
// - A mask makes -inf, and -inf stays -inf under every edit, so it does not matter when it is applied (3).
// - The counts are integers: taking a draft's tokens into account one by one gives what counting the longer
//   text would (4).
#pragma once

#include "../record/record.cuh"

// Into the finite range, as numeric/math.rs has it: only masks make -inf.
__device__ __forceinline__ float saturated(float x) { return fminf(fmaxf(x, -LARGEST_FLOAT), LARGEST_FLOAT); }

__device__ __forceinline__ bool has_bit(const uint32_t* bits, uint32_t token) { return bits[token / 32] >> (token % 32) & 1; }

// Where a row stands: a sequence's text, and the tokens of a draft after it.
struct Place {
    const Sequence* sequence;
    const uint32_t* mask;
    const uint32_t* path;
    uint32_t depth;
    // What the text repeats: the number of the step, then a word for each token (text/repeat.cuh).
    const uint32_t* repeats;

    // Token number i of the text and the path after it.
    __device__ __forceinline__ uint32_t text(uint32_t i) const {
        const uint32_t known = sequence->length;
        return i < known ? sequence->history[i] : path[i - known];
    }

    // How many tokens the output has, with those of the path.
    __device__ __forceinline__ uint32_t output() const { return sequence->length - sequence->prompt + depth; }

    // Whether a token was taken back at this place.
    __device__ bool is_banned(uint32_t token) const {
        if (sequence->length + depth != sequence->ban_place) return false;
#pragma unroll 1
        for (uint32_t i = 0; i < sequence->ban_count; i++) {
            if (sequence->bans[i] == token) return true;
        }
        return false;
    }

    // How often the window of the sequence's text has a token: x in the prompt, y in the output. A read of
    // device memory: callers issue it before they need it.
    __device__ __forceinline__ uint2 counted(uint32_t token) const { return sequence->counts != nullptr ? sequence->counts[token] : make_uint2(0, 0); }

    // The same for the window that ends with the draft, from what `counted` said.
    __device__ uint2 count(uint32_t token, uint2 seen) const {
        const uint32_t known = sequence->length, window = sequence->window;
#pragma unroll 1
        for (uint32_t i = 0; i < depth; i++) {
            seen.y += path[i] == token;
            // The token that leaves the window as this one enters it.
            if (window > 0 && known + i >= window && text(known + i - window) == token) {
                if (known + i - window < sequence->prompt) seen.x--;
                else seen.y--;
            }
        }
        return seen;
    }

    // Whether a bad word ends with this token: the output ends with the word's other tokens.
    __device__ bool ends_bad_word(uint32_t token) const {
        const uint32_t words = sequence->words, written = output(), end = sequence->length + depth;
        const uint32_t *begins = sequence->bad_words, *tokens = begins + words + 1;
#pragma unroll 1
        for (uint32_t i = 0; i < words; i++) {
            const uint32_t first = begins[i], last = begins[i + 1] - 1;
            if (tokens[last] != token || last - first > written) continue;
            uint32_t same = 0;
#pragma unroll 1
            while (same < last - first && tokens[last - 1 - same] == text(end - 1 - same)) same++;
            if (same == last - first) return true;
        }
        return false;
    }

    // Whether it is an EOS or stop id.
    __device__ bool is_end(uint32_t token) const {
#pragma unroll 1
        for (uint32_t i = 0; i < sequence->ends; i++) {
            if (sequence->end_ids[i] == token) return true;
        }
        return false;
    }

    // The logit with the token's bias, found by halving the sorted ids.
    __device__ float biased(uint32_t token, float x) const {
        uint32_t low = 0, high = sequence->biases;
#pragma unroll 1
        while (low < high) {
            const uint32_t middle = (low + high) / 2;
            if (sequence->bias_ids[middle] < token) low = middle + 1;
            else high = middle;
        }
        return low < sequence->biases && sequence->bias_ids[low] == token ? saturated(x + sequence->bias_values[low]) : x;
    }

    // The logit after the three penalties, of a token that the window has so often.
    __device__ float penalised(uint32_t token, float x, uint2 counted) const {
        const uint2 seen = count(token, counted);
        if (seen.x + seen.y == 0) return x;
        x = saturated(x > 0.0f ? x / sequence->repetition : x * sequence->repetition);
        const uint32_t often = seen.y + (sequence->counts_prompt ? seen.x : 0);
        // The product may be infinite, which the difference then saturates.
        return often == 0 ? x : saturated(saturated(x - float(often) * sequence->frequency) - sequence->presence);
    }

    // Whether the list of allowed ids and the mask leave a token.
    __device__ __forceinline__ bool allows(uint32_t token) const {
        return (sequence->allowed == nullptr || has_bit(sequence->allowed, token)) && (mask == nullptr || has_bit(mask, token));
    }

    // A logit after one edit; `counted` is what `counted(token)` says.
    __device__ __forceinline__ float edited_by(uint32_t edit, uint32_t token, float x, uint2 counted) const {
        switch (edit) {
            case BANS: return is_banned(token) ? negative_infinity() : x;
            case BAD_WORDS: return ends_bad_word(token) ? negative_infinity() : x;
            case MIN_TOKENS: return output() < sequence->min_tokens && is_end(token) ? negative_infinity() : x;
            case LOGIT_BIAS: return biased(token, x);
            case PENALTIES: return penalised(token, x, counted);
            case ALLOWED: return allows(token) ? x : negative_infinity();
            case DRY: return repeated(sequence, repeats, token, x);
            case NO_REPEAT: return ends_ngram(repeats, token) ? negative_infinity() : x;
        }
        return x;
    }

    // The word of a token, without the number of the step; 0 if it was not written in this one.
    __device__ __forceinline__ static uint32_t repetition(const uint32_t* repeats, uint32_t token) {
        const uint32_t word = repeats[1 + token];
        return word >> (REPEAT_LENGTH_BITS + 1) == repeats[0] ? word & ((2u << REPEAT_LENGTH_BITS) - 1) : 0;
    }

    // Whether an n-gram that the text has ends with the token.
    __device__ __noinline__ static bool ends_ngram(const uint32_t* repeats, uint32_t token) { return repetition(repeats, token) & 1; }

    // DRY: the logit of a token that would go on with a repetition. The penalty is the product that dry.rs makes, factor by
    // factor; once it is above every f32 it stays so.
    __device__ __noinline__ static float repeated(const Sequence* sequence, const uint32_t* repeats, uint32_t token, float x) {
        const uint32_t length = repetition(repeats, token) >> 1;
        if (length == 0) return x;
        double penalty = sequence->dry_multiplier;
#pragma unroll 1
        for (uint32_t i = sequence->dry_allowed + 1; i < length && penalty < 1e300; i++) penalty *= sequence->dry_base;
        return saturated(x - saturated(float(penalty)));
    }

    // A logit after all edits of the first segment.
    __device__ __forceinline__ float edited(uint32_t token, float x, uint2 counted) const {
        const uint32_t edits = sequence->edits;
#pragma unroll 1
        for (uint32_t i = 0; i < edits && x > negative_infinity(); i++) x = edited_by(sequence->edit(i), token, x, counted);
        return x;
    }

    // How many edits of the first segment it takes until a token is gone: 0 if it never was there, one more than there
    // are edits if it stays. Only rows without a token are asked.
    __device__ __noinline__ uint32_t edits_survived(uint32_t token, float x) const {
        if (!(x > negative_infinity())) return 0;
        const uint32_t edits = sequence->edits;
        const uint2 counts = counted(token);
#pragma unroll 1
        for (uint32_t i = 0; i < edits; i++) {
            x = edited_by(sequence->edit(i), token, x, counts);
            if (!(x > negative_infinity())) return i + 1;
        }
        return edits + 1;
    }

    // Which of four consecutive tokens, the first a multiple of four, an edit may change: one bit each.
    // `word` is the word of the bitmap that has their bits.
    __device__ __forceinline__ uint32_t touched(uint32_t word, uint32_t token) const {
        uint32_t found = word >> (token % 32) & 15;
#pragma unroll 1
        for (uint32_t i = 0; i < depth; i++) {
            if (path[i] / 4 == token / 4) found |= 1u << path[i] % 4;
        }
        return found;
    }
};

// The bitmaps of a row, in registers.
struct Adjustment {
    const uint32_t *mask, *allowed, *touched;

    // Removes what the masks remove from four consecutive tokens. Tokens past the vocabulary are -inf
    // already.
    __device__ __forceinline__ void apply_masks(float4& x, uint32_t token) const {
        if (mask != nullptr || allowed != nullptr) {
            const uint32_t bits = (mask != nullptr ? mask[token / 32] : ~0u) & (allowed != nullptr ? allowed[token / 32] : ~0u);
            const uint32_t four = bits >> (token % 32);
            const float low = negative_infinity();
            x.x = four & 1 ? x.x : low;
            x.y = four & 2 ? x.y : low;
            x.z = four & 4 ? x.z : low;
            x.w = four & 8 ? x.w : low;
        }
    }

    // The word of the bitmap that has the bits of some tokens. A read of device memory: callers issue it
    // before they need it.
    __device__ __forceinline__ uint32_t word(uint32_t token) const { return touched != nullptr ? touched[token / 32] : 0; }

    // One token that an edit may change, as masks and edits leave it. Callers have the place in shared memory:
    // passed by value it would take their registers.
    __device__ __noinline__ static float edited(const Place& place, uint32_t token, float x, uint2 counted) {
        return place.allows(token) ? place.edited(token, x, counted) : negative_infinity();
    }

    // Any one token, as masks and edits leave it.
    __device__ __noinline__ static float adjusted(const Place& place, const uint32_t* touched, uint32_t token, float x) {
        const bool is_touched = touched != nullptr && (place.touched(touched[token / 32], token & ~3u) >> token % 4 & 1);
        return is_touched ? edited(place, token, x, place.counted(token)) : place.allows(token) ? x : negative_infinity();
    }

    // Four consecutive tokens, as masks and edits leave them; `word` has their bits. The loop has one call of
    // `edited` for all four, which keeps the code short.
    __device__ __forceinline__ void apply(float4& x, uint32_t token, const Place& place, uint32_t word) const {
        apply_masks(x, token);
        if (touched == nullptr) return;
#pragma unroll 1
        for (uint32_t which = place.touched(word, token); which != 0; which &= which - 1) {
            const uint32_t i = __ffs(which) - 1;
            const float v = edited(place, token + i, i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w, place.counted(token + i));
            x = make_float4(i == 0 ? v : x.x, i == 1 ? v : x.y, i == 2 ? v : x.z, i == 3 ? v : x.w);
        }
    }
};
