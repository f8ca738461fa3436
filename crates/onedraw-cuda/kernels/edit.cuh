// Masks and edits of single logits: the row is never written.
//
// A sequence lists the tokens that an edit may change, for which edits are computed beside the first pass; where that list is too short, a bit a token says it. Each edit is one rounded operation in the order of the chain.
#pragma once

#include "record.cuh"

__device__ __forceinline__ float saturated(float x) { return fminf(fmaxf(x, -3.402823466e+38f), 3.402823466e+38f); }

__device__ __forceinline__ bool has_bit(const uint32_t* bits, uint32_t token) { return bits[token / 32] >> (token % 32) & 1; }

// Where a row stands: a sequence's text, and the tokens of a draft after it.
struct Place {
    const Sequence* sequence;
    const uint32_t* mask;
    const uint32_t* path;
    uint32_t depth;

    // Token number i of the text, which the ring or the path holds.
    __device__ __forceinline__ uint32_t text(uint32_t i) const {
        const uint32_t known = sequence->prompt + sequence->position;
        return i < known ? sequence->history[i % sequence->ring] : path[i - known];
    }

    // How often the window of the text has a token: x in the prompt, y in the output. It takes a while: who can asks before it is needed.
    __device__ __forceinline__ uint2 counted(uint32_t token) const { return sequence->counts != nullptr ? sequence->counts[token] : make_uint2(0, 0); }

    // The same of the window that ends with the draft.
    __device__ uint2 count(uint32_t token, uint2 seen) const {
        const uint32_t known = sequence->prompt + sequence->position, window = sequence->window;
#pragma unroll 1
        for (uint32_t i = 0; i < depth; i++) {
            seen.y += path[i] == token;
            // The token that leaves the window for this one.
            if (window > 0 && known + i >= window && text(known + i - window) == token) {
                if (known + i - window < sequence->prompt) seen.x--;
                else seen.y--;
            }
        }
        return seen;
    }

    // Whether a bad word ends with this token.
    __device__ bool ends_bad_word(uint32_t token) const {
        const uint32_t words = sequence->words, output = sequence->position + depth, end = sequence->prompt + output;
        const uint32_t *begins = sequence->bad_words, *tokens = begins + words + 1;
#pragma unroll 1
        for (uint32_t i = 0; i < words; i++) {
            const uint32_t first = begins[i], last = begins[i + 1] - 1;
            if (tokens[last] != token || last - first > output) continue;
            uint32_t same = 0;
#pragma unroll 1
            while (same < last - first && tokens[last - 1 - same] == text(end - 1 - same)) same++;
            if (same == last - first) return true;
        }
        return false;
    }

    __device__ bool is_end(uint32_t token) const {
#pragma unroll 1
        for (uint32_t i = 0; i < sequence->ends; i++) {
            if (sequence->end_ids[i] == token) return true;
        }
        return false;
    }

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

    __device__ float penalised(uint32_t token, float x, uint2 counted) const {
        const uint2 seen = count(token, counted);
        if (seen.x + seen.y == 0) return x;
        x = saturated(x > 0.0f ? x / sequence->repetition : x * sequence->repetition);
        const uint32_t often = seen.y + (sequence->counts_prompt ? seen.x : 0);
        // The product may be infinite, which the difference then saturates.
        return often == 0 ? x : saturated(saturated(x - float(often) * sequence->frequency) - sequence->presence);
    }

    // Whether the list and the mask leave a token.
    __device__ __forceinline__ bool allows(uint32_t token) const {
        return (sequence->allowed == nullptr || has_bit(sequence->allowed, token)) && (mask == nullptr || has_bit(mask, token));
    }

    // A logit after the first `edits` edits, of a token that is `counted`.
    __device__ __forceinline__ float edited(uint32_t token, float x, uint32_t edits, uint2 counted) const {
#pragma unroll 1
        for (uint32_t i = 0; i < edits && x > negative_infinity(); i++) {
            switch (sequence->edit[i]) {
                case BAD_WORDS: x = ends_bad_word(token) ? negative_infinity() : x; break;
                case MIN_TOKENS: x = sequence->position + depth < sequence->min_tokens && is_end(token) ? negative_infinity() : x; break;
                case LOGIT_BIAS: x = biased(token, x); break;
                case PENALTIES: x = penalised(token, x, counted); break;
                case ALLOWED: x = allows(token) ? x : negative_infinity(); break;
            }
        }
        return x;
    }

    // Of four tokens that follow each other, the first a multiple of four: which ones an edit may change, a bit each, by the word that has theirs.
    __device__ __forceinline__ uint32_t touched(uint32_t word, uint32_t token) const {
        uint32_t found = word >> (token % 32) & 15;
#pragma unroll 1
        for (uint32_t i = 0; i < depth; i++) {
            if (path[i] / 4 == token / 4) found |= 1u << path[i] % 4;
        }
        return found;
    }
};

// The masks and the bits of a row, in registers.
struct Adjustment {
    const uint32_t *mask, *allowed, *touched;

    // Four tokens as the masks leave them. Those past the vocabulary are -inf already.
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

    // The word with the bits of tokens that an edit may change: to be read before it is needed.
    __device__ __forceinline__ uint32_t word(uint32_t token) const { return touched != nullptr ? touched[token / 32] : 0; }

    // One token that an edit may change, as the masks and the edits leave it. Everything by value: an address would put it into local memory.
    __device__ __noinline__ static float edited(Place place, uint32_t token, float x, uint2 counted) {
        return place.allows(token) ? place.edited(token, x, place.sequence->edits, counted) : negative_infinity();
    }

    // One token, whichever.
    __device__ __noinline__ static float adjusted(Place place, const uint32_t* touched, uint32_t token, float x) {
        const bool is_touched = touched != nullptr && (place.touched(touched[token / 32], token & ~3u) >> token % 4 & 1);
        return is_touched ? edited(place, token, x, place.counted(token)) : place.allows(token) ? x : negative_infinity();
    }

    // Four of them, with the word of their bits. One place in the code, whichever token it is.
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
