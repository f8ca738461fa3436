/* What the tests check with. A function that uses OK and FAILS has an `onedraw_error error`. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onedraw.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);   \
            exit(1);                                                                  \
        }                                                                             \
    } while (0)

/* The call is done, and its error says so. */
#define OK(call)                                                                      \
    do {                                                                              \
        if ((call) != ONEDRAW_OK) {                                                   \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, error.message);        \
            exit(1);                                                                  \
        }                                                                             \
        CHECK(error.status == ONEDRAW_OK && error.length == 0 && error.message[0] == 0); \
    } while (0)

/* The call fails with this status, kind and message. */
#define FAILS(call, expected, of_kind, words)                                         \
    do {                                                                              \
        onedraw_status returned = (call);                                             \
        if (returned != (expected) || error.status != (expected) || strcmp(error.kind, (of_kind)) != 0 || \
            strcmp(error.message, (words)) != 0 || error.length != strlen(words)) {   \
            fprintf(stderr, "%s:%d: %d %s: %s\n", __FILE__, __LINE__, (int)returned, error.kind, error.message); \
            exit(1);                                                                  \
        }                                                                             \
    } while (0)

/* The parameters of a JSON text. */
onedraw_params *params_of(const char *json);

/* The sampler of a JSON text. */
onedraw_sampler *sampler_of(const char *json);

/* The row that golden/README.md defines. */
void golden_row(const char *shape, const float *list, uint32_t seed, float *logits, size_t vocabulary);

void test_golden(void);
void test_params(void);
void test_records(void);
void test_samplers(void);
void test_batches(void);
void test_texts(void);
void test_grammars(void);
void test_beams(void);
void test_handles(void);
void test_arguments(void);
void test_guards(void);
void test_threads(void);

#endif
