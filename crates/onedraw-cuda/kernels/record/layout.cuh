// Asserts that the structs which the host fills or reads lie as shared.def says. The host asserts the same of
// its own.
#pragma once

#include <stddef.h>

#include "../shard/opening.cuh"
#include "../shard/question.cuh"
#include "../text/append.cuh"
#include "../text/repeat.cuh"
#include "../text/requests.cuh"
#include "../text/revise.cuh"
#include "record.cuh"

#define STRUCT(TYPE, SIZE) static_assert(sizeof(TYPE) == SIZE, "record/shared.def has another size of " #TYPE);
#define FIELD(TYPE, NAME, OFFSET, SIZE)                                                                  \
    static_assert(offsetof(TYPE, NAME) == OFFSET && sizeof(TYPE::NAME) == SIZE,                          \
                  "record/shared.def has another place or size of " #TYPE "::" #NAME);
#include "shared.def"
