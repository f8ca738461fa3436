// Asserts that the structs which the host fills or reads lie as shared.def says. The host asserts the same of
// its own.
#pragma once

#include <stddef.h>

#include "append.cuh"
#include "revise.cuh"
#include "opening.cuh"
#include "question.cuh"
#include "record.cuh"
#include "repeat.cuh"
#include "requests.cuh"

#define STRUCT(TYPE, SIZE) static_assert(sizeof(TYPE) == SIZE, "kernels/shared.def has another size of " #TYPE);
#define FIELD(TYPE, NAME, OFFSET, SIZE)                                                                  \
    static_assert(offsetof(TYPE, NAME) == OFFSET && sizeof(TYPE::NAME) == SIZE,                          \
                  "kernels/shared.def has another place or size of " #TYPE "::" #NAME);
#include "shared.def"
