// The constants and kinds that the host and the kernels share, from the one list of them: shared.def says
// what each is for and where its value comes from.
#pragma once

#include "../number/instruction.cuh"

#define CONSTANT(NAME, VALUE) constexpr uint32_t NAME = VALUE;
#include "shared.def"

// What a random word is for.
enum Purpose : uint32_t {
#define PURPOSE(NAME, VALUE) NAME = VALUE,
#include "shared.def"
};

// The truncations of a chain, in their order. Each keeps a run of the order of tokens.
enum StageKind : uint32_t {
#define STAGE_KIND(NAME, VALUE) NAME = VALUE,
#include "shared.def"
};

// What changes single logits, in the order of the chain. Allowed tokens are a mask, and commute with all of
// these.
enum EditKind : uint32_t {
#define EDIT_KIND(NAME, VALUE) NAME = VALUE,
#include "shared.def"
};

enum LogprobsMode : uint32_t {
#define LOGPROBS_MODE(NAME, VALUE) NAME = VALUE,
#include "shared.def"
};

enum KeptMode : uint32_t {
#define KEPT_MODE(NAME, VALUE) NAME = VALUE,
#include "shared.def"
};

enum GaugeKind : uint32_t {
#define GAUGE_KIND(NAME, VALUE) NAME = VALUE,
#include "shared.def"
};

enum Status : uint32_t {
#define STATUS(NAME, VALUE) NAME = VALUE,
#include "shared.def"
    // Never written for the host: the form of the draw that was tried is not one for this row (draw/row.cuh).
    UNFIT = 4,
};

// By which rule a draft is judged.
enum Rule : uint32_t {
#define RULE(NAME, VALUE) NAME = VALUE,
#include "shared.def"
};

// What is asked of a part of a row, and how it is answered.
enum QuestionKind : uint32_t {
#define QUESTION_KIND(NAME, VALUE) NAME = VALUE,
#include "shared.def"
};

// What a question changes in a part of a row.
enum ChangeKind : uint32_t {
#define CHANGE_KIND(NAME, VALUE) NAME = VALUE,
#include "shared.def"
};
