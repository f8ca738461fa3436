// A row as its chain left it, read again after the draw, four tokens at a time and by any thread.
#pragma once

#include "../edit/beheaded.cuh"
#include "../edit/bend.cuh"

template <typename T>
struct LeftRow {
    const T* logits;
    const float* desk;
    const Sequence& sequence;
    // In shared memory (edit/edit.cuh).
    const Place& place;
    Adjustment adjustment;
    Key last, head;
    float above, lowest, bend_top;
    uint32_t vocabulary;
    bool is_on_desk, is_bent, is_aligned;

    __device__ __forceinline__ LeftRow(const Step& step, uint32_t row, const Task& task, const Sequence& sequence, const Report& report, const Place& place)
        : logits(static_cast<const T*>(step.logits) + int64_t(row) * step.stride),
          desk(step.desks + uint64_t(row) * step.pitch * BLOCK),
          sequence(sequence),
          place(place),
          adjustment{task.mask, task.allowed, task.touched},
          last(report.last),
          head(report.head),
          above(report.above),
          lowest(report.lowest),
          bend_top(report.bend_top),
          vocabulary(step.vocabulary),
          is_on_desk(report.is_on_desk),
          is_bent(sequence.is_bent && !report.is_on_desk),
          is_aligned(reinterpret_cast<uint64_t>(logits) % (4 * sizeof(T)) == 0) {}

    // Four tokens, the first a multiple of four; -inf past the vocabulary.
    __device__ __forceinline__ float4 four_at(uint32_t token) const {
        const float low = negative_infinity();
        if (token >= vocabulary) return make_float4(low, low, low, low);
        if (is_on_desk) return *reinterpret_cast<const float4*>(desk + token);
        float4 x;
        if (is_aligned && token + 4 <= vocabulary) x = four(logits + token);
        else x = make_float4(one(logits + token), token + 1 < vocabulary ? one(logits + token + 1) : low, token + 2 < vocabulary ? one(logits + token + 2) : low, token + 3 < vocabulary ? one(logits + token + 3) : low);
        adjustment.apply(x, token, place, adjustment.word(token));
        if (!is_bent) return x;
        const Bend bend = bend_of(sequence);
        return make_float4(bend.of(x.x, bend_top), bend.of(x.y, bend_top), bend.of(x.z, bend_top), bend.of(x.w, bend_top));
    }

    // Whether no truncation has removed a token at the top, and whether none has removed it at all.
    __device__ __forceinline__ bool is_left(float x, uint32_t id) const { return x < above && (head == 0 || !is_removed(sequence, head, x, id)); }
    __device__ __forceinline__ bool is_kept(float x, uint32_t id) const { return key_of(x, id) <= last && x >= lowest && is_left(x, id); }
};
