/* Arguments that cannot be used, and errors that nobody wants. */
#include "check.h"

void test_arguments(void) {
    static const float logits[5] = {1.0f, 2.0f, 3.0f, 4.0f, 5.0f};
    onedraw_error error;
    onedraw_sampled sampled;
    onedraw_params *params;
    size_t count;
    uint32_t tokens[2];
    onedraw_sampler *sampler = sampler_of("{\"temperature\": 0}");
    onedraw_row row = {.logits = logits, .vocabulary = 4};
#define BAD(name, words, call) FAILS(call, ONEDRAW_BAD_ARGUMENT, name, name ": " words)
    BAD("json", "is NULL", onedraw_params_from_json(NULL, &params, &error));
    CHECK(params == NULL);
    BAD("params", "is NULL", onedraw_params_from_json("{}", NULL, &error));
    BAD("json", "is not UTF-8 at byte 2", onedraw_params_from_json("{\"\xff\": 1}", &params, &error));
    BAD("row", "is NULL", onedraw_sampler_sample(sampler, NULL, &sampled, &error));
    BAD("sampled", "is NULL", onedraw_sampler_sample(sampler, &row, NULL, &error));
    BAD("tokens", "is NULL", onedraw_sampler_output(sampler, NULL, 1, &count, &error));
    BAD("the place for the length", "is NULL", onedraw_sampler_output(sampler, tokens, 2, NULL, &error));
    BAD("seed", "is NULL", onedraw_sampler_seed(sampler, NULL, &error));

    row.logits = NULL;
    BAD("logits", "is NULL", onedraw_sampler_sample(sampler, &row, &sampled, &error));
    row.logits = (const char *)logits + 1;
    BAD("logits", "is not aligned to 4 bytes", onedraw_sampler_sample(sampler, &row, &sampled, &error));
    row.dtype = ONEDRAW_BF16;
    BAD("logits", "is not aligned to 2 bytes", onedraw_sampler_sample(sampler, &row, &sampled, &error));
    row.logits = logits;
    row.dtype = 3;
    BAD("dtype", "must be ONEDRAW_F32 (0), ONEDRAW_F16 (1) or ONEDRAW_BF16 (2), not 3",
        onedraw_sampler_sample(sampler, &row, &sampled, &error));
    row.dtype = ONEDRAW_F32;
    row.vocabulary = SIZE_MAX;
    BAD("logits", "has 18446744073709551615 values, more than memory can hold",
        onedraw_sampler_sample(sampler, &row, &sampled, &error));
    row.vocabulary = 4;
    row.mask_words = 1;
    BAD("mask", "is NULL, and mask_words is 1", onedraw_sampler_sample(sampler, &row, &sampled, &error));
    const uint32_t mask = 1;
    row.mask = &mask;
    row.mask_words = 0;
    FAILS(onedraw_sampler_sample(sampler, &row, &sampled, &error), ONEDRAW_BAD_ROW, "mask_too_short",
          "the mask has 0 words of 32 bits; this vocabulary needs 1");
    row.mask = NULL;

    /* Nothing of that was appended, and nobody need take an error. */
    CHECK(onedraw_sampler_sample(sampler, &row, &sampled, NULL) == ONEDRAW_OK && sampled.token == 3 && sampled.position == 0);
    CHECK(onedraw_sampler_sample(sampler, NULL, &sampled, NULL) == ONEDRAW_BAD_ARGUMENT);
    CHECK(onedraw_sampler_sample(sampler, &row, &sampled, (onedraw_error *)((char *)&error + 1)) == ONEDRAW_OK);
    OK(onedraw_sampler_free(sampler, &error));
}
