// What a question changes in a part of a row (crates/onedraw/src/logits/slice.rs: narrow, behead, smooth,
// edit_tokens, keep_only).
//
// The naive loop:
//
//     for each token of the part: logit[token] = changed(logit[token])
//
// What this code does differently: the unmodified row is not written. What the first change leaves lies on
// the "desk", f32 memory of the part's own, and later changes and questions read it there. Masks and edits of
// the first segment are part of it.
//
// Why this is exact: a change of a token depends on this token's logit alone, and each is the CPU's operation
// by operation.
#pragma once

#include "../edit/beheaded.cuh"
#include "../edit/bend.cuh"
#include "../edit/edit.cuh"

// A change, as the host fills it.
struct Change {
    // NARROWED: the last token that stays. BEHEADED: the last one that goes.
    Key last;
    // NARROWED: 1 / T.
    double inverse;
    // BENT: the curve.
    double factor, quadratic, cubic;
    // REPLACED: for each token of the part its new logit; -inf: it is masked; NaN: it is left as it is.
    const float* replacements;
    // BENT: the largest logit of the whole row.
    float x_max;
    ChangeKind kind;
    // BEHEADED: whether the tokens stay that XTC never removes.
    uint32_t spares_protected;
    // NARROWED: the first edit of the segment among those of the sequence, and where they end.
    uint32_t first_edit, end_of_edits;
    uint32_t reserved;
};

// A token after a change.
struct Changed {
    float x;
    // NARROWED: how many edits of the segment it takes until the token is gone; 0 if it did not get there, one
    // more than there are edits if it stays.
    uint32_t survived;
};

// Begins a segment of the chain: the token stays if it comes up to `last`, its logit is divided by the
// temperature, and the edits of the segment are made. Masks that are applied this late are `late_mask` and
// the sequence's `late_allowed`.
__device__ __forceinline__ Changed narrowed(const Change& change, const Place& place, const uint32_t* late_mask,
                                            uint32_t token, float x) {
    if (key_of(x, token) > change.last) return {negative_infinity(), 0};
    const Sequence& sequence = *place.sequence;
    x = saturated(float(double(x) * change.inverse));
    const bool is_touched = sequence.touched != nullptr && has_bit(sequence.touched, token);
    const uint2 counted = is_touched ? place.counted(token) : make_uint2(0, 0);
    const auto leaves = [&](const uint32_t* bits) { return bits == nullptr || has_bit(bits, token); };
#pragma unroll 1
    for (uint32_t i = change.first_edit; i < change.end_of_edits; i++) {
        const uint32_t edit = sequence.edit(i);
        if (edit == ALLOWED) {
            x = leaves(late_mask) && leaves(sequence.late_allowed) && place.allows(token) ? x : negative_infinity();
        } else if (is_touched) {
            x = place.edited_by(edit, token, x, counted);
        }
        if (!(x > negative_infinity())) return {x, i + 1 - change.first_edit};
    }
    return {x, change.end_of_edits + 1 - change.first_edit};
}

// The logit of token number i of the part after a change. Everything but the change is passed by value: a
// reference would put it into local memory.
__device__ __noinline__ Changed changed(const Change& change, const Place& place, const uint32_t* late_mask, uint32_t i,
                                        uint32_t token, float x) {
    const float low = negative_infinity();
    if (!(x > low)) return {low, 0};
    switch (change.kind) {
        case NARROWED: return narrowed(change, place, late_mask, token, x);
        case BEHEADED: {
            const bool is_head = key_of(x, token) <= change.last;
            const bool is_spared = is_head && change.spares_protected && is_protected(*place.sequence, token);
            return {is_head && !is_spared ? low : x, 0};
        }
        case BENT: return {Bend{change.factor, change.quadratic, change.cubic}.of(x, change.x_max), 0};
        case REPLACED: {
            const float replacement = change.replacements[i];
            return {replacement == replacement ? replacement : x, 0};
        }
        default: return {x, 0};
    }
}
