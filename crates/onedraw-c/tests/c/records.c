/* Logits that come with their ids. */
#include "check.h"

#include <math.h>

/* As llama.cpp has them. */
struct candidate {
    int32_t id;
    float logit, probability;
};

void test_records(void) {
    onedraw_error error;
    onedraw_sampled sampled, expected;
    float row[6];
    row[5] = 77.0f; /* Nothing is written there. */
    struct candidate candidates[] = {{3, 2.9f, NAN}, {0, 1.0f, NAN}, {4, -INFINITY, NAN}, {1, 3.5f, NAN}, {2, 0.2f, NAN}};
    onedraw_records records = {&candidates[0].id, &candidates[0].logit, COUNT(candidates), sizeof candidates[0]};
    const float in_order[] = {1.0f, 3.5f, 0.2f, 2.9f, -INFINITY};
    OK(onedraw_row_from_records(&records, row, 5, &error));
    CHECK(memcmp(row, in_order, sizeof in_order) == 0 && row[5] == 77.0f);

    /* A token that is drawn from them is the one that is drawn from the row. */
    onedraw_sampler *sampler = sampler_of("{\"temperature\": 0.8, \"seed\": 7}");
    for (uint32_t ahead = 0; ahead < 20; ahead++) {
        const onedraw_row direct = {.logits = in_order, .vocabulary = 5}, written = {.logits = row, .vocabulary = 5};
        OK(onedraw_sampler_peek(sampler, &direct, ahead, &expected, &error));
        OK(onedraw_sampler_peek(sampler, &written, ahead, &sampled, &error));
        CHECK(sampled.token == expected.token);
    }

    /* Some, in two arrays; what is missing is masked. */
    const int32_t ids[] = {2, 1};
    const float logits[] = {5.0f, NAN};
    records = (onedraw_records){.ids = ids, .logits = logits, .count = 2};
    OK(onedraw_row_from_records(&records, row, 5, &error));
    CHECK(row[0] == -INFINITY && isnan(row[1]) && row[2] == 5.0f && row[3] == -INFINITY && row[4] == -INFINITY && row[5] == 77.0f);
    records.count = 1;
    OK(onedraw_row_from_records(&records, row, 5, &error));
    const onedraw_row alone = {.logits = row, .vocabulary = 5};
    OK(onedraw_sampler_peek(sampler, &alone, 0, &sampled, &error));
    CHECK(sampled.token == 2);

    /* Any NaN stays one, and is found by the draw. */
    for (uint32_t bits = 0x7ffffffdu; bits <= 0x7fffffffu; bits++) {
        memcpy(&candidates[0].logit, &bits, sizeof bits);
        records = (onedraw_records){&candidates[0].id, &candidates[0].logit, 2, sizeof candidates[0]};
        OK(onedraw_row_from_records(&records, row, 5, &error));
        FAILS(onedraw_sampler_peek(sampler, &alone, 0, &sampled, &error), ONEDRAW_BAD_ROW, "nan_logit",
              "the logit of token 3 is NaN; logits are finite or -inf (masked)");
    }

    records.count = 0;
    records.ids = NULL;
    OK(onedraw_row_from_records(&records, row, 5, &error));
    FAILS(onedraw_sampler_peek(sampler, &alone, 0, &sampled, &error), ONEDRAW_BAD_ROW, "nothing_left",
          "every logit of the row is -inf");
    OK(onedraw_sampler_free(sampler, &error));

    records = (onedraw_records){&candidates[0].id, &candidates[0].logit, COUNT(candidates), sizeof candidates[0]};
    FAILS(onedraw_row_from_records(&records, row, 4, &error), ONEDRAW_BAD_ARGUMENT, "ids",
          "ids: record 2 has id 4, which is no token of a vocabulary of 4");
    candidates[1].id = -1;
    FAILS(onedraw_row_from_records(&records, row, 5, &error), ONEDRAW_BAD_ARGUMENT, "ids",
          "ids: record 1 has id -1, which is no token of a vocabulary of 5");
    candidates[1].id = 0;
    candidates[4].id = 4;
    FAILS(onedraw_row_from_records(&records, row, 5, &error), ONEDRAW_BAD_ARGUMENT, "ids",
          "ids: record 4 has id 4, which an earlier record has");
    /* The same where the first are in order. */
    const int32_t begun[] = {0, 1, 2, 1, 4};
    records = (onedraw_records){.ids = begun, .logits = in_order, .count = 3};
    OK(onedraw_row_from_records(&records, row, 5, &error));
    CHECK(row[0] == 1.0f && row[1] == 3.5f && row[2] == 0.2f && row[3] == -INFINITY && row[4] == -INFINITY);
    records.count = 5;
    FAILS(onedraw_row_from_records(&records, row, 5, &error), ONEDRAW_BAD_ARGUMENT, "ids",
          "ids: record 3 has id 1, which an earlier record has");
    const int32_t all[] = {0, 1, 2, 3, 4};
    records.ids = all;
    OK(onedraw_row_from_records(&records, row, 5, &error));
    CHECK(memcmp(row, in_order, sizeof in_order) == 0);
    FAILS(onedraw_row_from_records(&records, row, 4, &error), ONEDRAW_BAD_ARGUMENT, "ids",
          "ids: record 4 has id 4, which is no token of a vocabulary of 4");
    records = (onedraw_records){&candidates[0].id, &candidates[0].logit, COUNT(candidates), sizeof candidates[0]};
    candidates[1].id = 4; /* Also one that is masked counts, whichever comes first. */
    candidates[4].id = 0;
    FAILS(onedraw_row_from_records(&records, row, 5, &error), ONEDRAW_BAD_ARGUMENT, "ids",
          "ids: record 2 has id 4, which an earlier record has");
    candidates[1].id = 2;
    candidates[4].id = 4;
    FAILS(onedraw_row_from_records(&records, row, 5, &error), ONEDRAW_BAD_ARGUMENT, "ids",
          "ids: record 4 has id 4, which an earlier record has");
    records.stride = 6;
    FAILS(onedraw_row_from_records(&records, row, 5, &error), ONEDRAW_BAD_ARGUMENT, "stride",
          "stride: must be a multiple of 4, not 6");
    records.stride = SIZE_MAX / 4 * 4;
    FAILS(onedraw_row_from_records(&records, row, 5, &error), ONEDRAW_BAD_ARGUMENT, "logits",
          "logits: has 5 values, more than memory can hold");
    records.stride = 0;
    records.logits = NULL;
    FAILS(onedraw_row_from_records(&records, row, 5, &error), ONEDRAW_BAD_ARGUMENT, "logits", "logits: is NULL");
    FAILS(onedraw_row_from_records(&records, NULL, 5, &error), ONEDRAW_BAD_ARGUMENT, "logits", "logits: is NULL");
    FAILS(onedraw_row_from_records(NULL, row, 5, &error), ONEDRAW_BAD_ARGUMENT, "records", "records: is NULL");
    CHECK(row[5] == 77.0f);
}
