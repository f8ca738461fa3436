/* Batches: sequences that come and go, and rows that fail alone. */
#include "check.h"

#include <math.h>

enum { ROWS = 3, VOCABULARY = 4 };

static onedraw_sequence add(onedraw_batch *batch, const char *json) {
    onedraw_error error;
    onedraw_sequence sequence;
    onedraw_params *params = params_of(json);
    OK(onedraw_batch_add(batch, params, &sequence, &error));
    OK(onedraw_params_free(params, &error));
    return sequence;
}

static void rows_that_fail(onedraw_batch *batch) {
    onedraw_error error, of_row;
    onedraw_sampled sampled[ROWS];
    onedraw_token_logprob logprobs[2];
    onedraw_kept kept;
    uint32_t ids[VOCABULARY];
    size_t count;
    const float logits[ROWS][VOCABULARY] = {{0.5f, 2.0f, 1.0f, 0.0f}, {3.0f, 0.0f, NAN, 1.0f}, {0.0f, 0.0f, 0.0f, 9.0f}};
    const uint32_t without_3[] = {7};
    const uint32_t *masks[ROWS] = {NULL, NULL, without_3};
    onedraw_rows rows = {.logits = logits, .count = ROWS, .vocabulary = VOCABULARY, .masks = masks, .mask_words = 1};
    onedraw_sequence sequences[ROWS] = {
        add(batch, "{\"temperature\": 0, \"logprobs\": 2, \"kept\": \"ids\"}"),
        add(batch, "{\"temperature\": 0}"),
        add(batch, "{\"temperature\": 0}"),
    };
    FAILS(onedraw_batch_sample(batch, sequences, &rows, sampled, &error), ONEDRAW_BAD_ROW, "nan_logit",
          "row 1: the logit of token 2 is NaN; logits are finite or -inf (masked)");
    CHECK(sampled[0].status == ONEDRAW_OK && sampled[0].token == 1 && sampled[0].logprobs == 2);
    CHECK(sampled[1].status == ONEDRAW_BAD_ROW && sampled[2].status == ONEDRAW_OK && sampled[2].token == 0);
    OK(onedraw_batch_row_error(batch, 1, &of_row, &error));
    CHECK(of_row.status == ONEDRAW_BAD_ROW && strcmp(of_row.kind, "nan_logit") == 0);
    OK(onedraw_batch_row_error(batch, 0, &of_row, &error));
    CHECK(of_row.status == ONEDRAW_OK);
    FAILS(onedraw_batch_row_error(batch, 3, &of_row, &error), ONEDRAW_NOTHING, "nothing",
          "the last call drew 3 rows, and no row 3");
    OK(onedraw_batch_logprobs(batch, 0, logprobs, 2, &count, &error));
    CHECK(count == 2 && logprobs[0].token == 1 && logprobs[1].token == 2);
    OK(onedraw_batch_kept(batch, 0, &kept, ids, VOCABULARY, &count, &error));
    CHECK(kept.count == 1 && count == 1 && ids[0] == 1);
    CHECK(onedraw_batch_logprobs(batch, 1, logprobs, 2, &count, &error) == ONEDRAW_BAD_ROW);

    /* A sequence has one row in a call. */
    sequences[1] = sequences[0];
    rows.masks = NULL;
    rows.mask_words = 0;
    const float good[ROWS][VOCABULARY] = {{0.5f, 2.0f, 1.0f, 0.0f}, {3.0f, 0.0f, 0.0f, 1.0f}, {0.0f, 0.0f, 0.0f, 9.0f}};
    rows.logits = good;
    FAILS(onedraw_batch_sample(batch, sequences, &rows, sampled, &error), ONEDRAW_BAD_SEQUENCE, "repeated_sequence",
          "row 1: the sequence has two steps in one call; each may have one");
    CHECK(sampled[0].status == ONEDRAW_OK && sampled[1].status == ONEDRAW_BAD_SEQUENCE && sampled[2].status == ONEDRAW_OK);
    OK(onedraw_batch_peek(batch, sequences, &rows, 2, sampled, &error));
    CHECK(sampled[0].token == 1 && sampled[1].token == 0 && sampled[2].token == 3 && sampled[0].position == 4);

    rows.stride = 3;
    FAILS(onedraw_batch_peek(batch, sequences, &rows, 0, sampled, &error), ONEDRAW_BAD_ARGUMENT, "stride",
          "stride: must be at least the vocabulary (4), not 3");
    rows.stride = SIZE_MAX / 2;
    CHECK(onedraw_batch_peek(batch, sequences, &rows, 0, sampled, &error) == ONEDRAW_BAD_ARGUMENT);
    rows.count = 0;
    OK(onedraw_batch_sample(batch, NULL, &rows, NULL, &error));
    for (int i = 0; i < 3; i += 2) OK(onedraw_batch_remove(batch, sequences[i], &error));
}

static void sequences(onedraw_batch *batch) {
    onedraw_error error;
    onedraw_sampled sampled, again;
    onedraw_runner runners[3];
    onedraw_probability distribution[VOCABULARY];
    onedraw_sequence fork, loaded, all[4];
    uint32_t output[4];
    size_t count, length;
    uint64_t seed;
    static char json[8192];
    const float logits[VOCABULARY] = {0.5f, 2.0f, 1.0f, 1.5f};
    onedraw_row row = {.logits = logits, .vocabulary = VOCABULARY};
    onedraw_rows rows = {.logits = logits, .count = 1, .vocabulary = VOCABULARY};
    onedraw_sequence sequence = add(batch, "{\"seed\": 3}");
    OK(onedraw_batch_runners(batch, sequence, &row, runners, 3, &count, &error));
    OK(onedraw_batch_fork(batch, sequence, &fork, &error));
    OK(onedraw_batch_sample(batch, &sequence, &rows, &sampled, &error));
    OK(onedraw_batch_peek(batch, &fork, &rows, 0, &again, &error));
    CHECK(count == 3 && runners[0].token == sampled.token && runners[0].behind == 0.0 && runners[1].behind > 0.0);
    CHECK(again.token == sampled.token);
    OK(onedraw_batch_accept_sampled(batch, fork, &again, &error));
    FAILS(onedraw_batch_accept_sampled(batch, fork, &again, &error), ONEDRAW_BAD_ARGUMENT, "sampled",
          "sampled: was drawn at position 0, and the next one is 1");
    FAILS(onedraw_batch_peek(batch, &fork, &rows, UINT32_MAX, &again, &error), ONEDRAW_BAD_ARGUMENT, "ahead",
          "ahead: must be at most 4294967294 here, not 4294967295");
    again.position = 1;
    again.seed = 4;
    FAILS(onedraw_batch_accept_sampled(batch, fork, &again, &error), ONEDRAW_BAD_ARGUMENT, "sampled",
          "sampled: was drawn with seed 4 for sequence 0, and here they are 3 and 0");
    OK(onedraw_batch_accept(batch, fork, 2, &error));
    OK(onedraw_batch_output(batch, fork, output, 4, &count, &error));
    CHECK(count == 2 && output[0] == sampled.token && output[1] == 2);
    OK(onedraw_batch_rewind(batch, fork, 1, &error));
    OK(onedraw_batch_take_back(batch, fork, 0, sampled.token, &error));
    OK(onedraw_batch_distribution(batch, fork, &row, distribution, VOCABULARY, &count, &error));
    CHECK(count == 3);
    for (size_t i = 0; i < count; i++) CHECK(distribution[i].token != sampled.token);
    FAILS(onedraw_batch_json(batch, json, sizeof json, &length, &error), ONEDRAW_NOTHING, "nothing",
          "this batch has explained nothing yet");
    OK(onedraw_batch_explain(batch, sequence, &row, 2, &count, &error));
    OK(onedraw_batch_json(batch, json, sizeof json, &length, &error));
    CHECK(length == count && strstr(json, "{\"stages\":[{\"stage\":\"row\",\"tokens\":4") == json);
    OK(onedraw_batch_seed(batch, fork, &seed, &error));
    CHECK(seed == 3);
    OK(onedraw_batch_save(batch, sequence, json, sizeof json, &length, &error));
    OK(onedraw_batch_load(batch, json, &loaded, &error));
    OK(onedraw_batch_sample(batch, &sequence, &rows, &sampled, &error));
    OK(onedraw_batch_sample(batch, &loaded, &rows, &again, &error));
    CHECK(again.token == sampled.token && again.position == 1);

    /* As it was when it was loaded, and with another prompt. */
    OK(onedraw_batch_reset(batch, loaded, &error));
    OK(onedraw_batch_sample(batch, &loaded, &rows, &again, &error));
    CHECK(again.token == sampled.token && again.position == 1);
    const uint32_t outside[] = {9};
    OK(onedraw_batch_set_prompt(batch, loaded, outside, 1, &error));
    FAILS(onedraw_batch_peek(batch, &loaded, &rows, 0, &again, &error), ONEDRAW_BAD_ROW, "outside_vocabulary",
          "row 0: prompt_token_ids: token 9 is outside the vocabulary; ids of this row are 0 to 3");

    OK(onedraw_batch_remove(batch, sequence, &error));
#define UNKNOWN(call) FAILS(call, ONEDRAW_BAD_SEQUENCE, "unknown_sequence", "the sequence is not in the batch")
    onedraw_draft draft = {0};
    size_t path[1];
    UNKNOWN(onedraw_batch_remove(batch, sequence, &error));
    FAILS(onedraw_batch_sample(batch, &sequence, &rows, &sampled, &error), ONEDRAW_BAD_SEQUENCE, "unknown_sequence",
          "row 0: the sequence is not in the batch");
    CHECK(sampled.status == ONEDRAW_BAD_SEQUENCE);
    UNKNOWN(onedraw_batch_accept(batch, UINT64_MAX, 0, &error));
    UNKNOWN(onedraw_batch_accept_sampled(batch, sequence, &again, &error));
    UNKNOWN(onedraw_batch_rewind(batch, sequence, 0, &error));
    UNKNOWN(onedraw_batch_take_back(batch, sequence, 0, 0, &error));
    UNKNOWN(onedraw_batch_set_prompt(batch, sequence, outside, 1, &error));
    UNKNOWN(onedraw_batch_reset(batch, sequence, &error));
    UNKNOWN(onedraw_batch_fork(batch, sequence, &fork, &error));
    UNKNOWN(onedraw_batch_output(batch, sequence, output, 4, &count, &error));
    UNKNOWN(onedraw_batch_seed(batch, sequence, &seed, &error));
    UNKNOWN(onedraw_batch_save(batch, sequence, json, sizeof json, &length, &error));
    UNKNOWN(onedraw_batch_distribution(batch, sequence, &row, distribution, VOCABULARY, &count, &error));
    UNKNOWN(onedraw_batch_runners(batch, sequence, &row, runners, 3, &count, &error));
    UNKNOWN(onedraw_batch_explain(batch, sequence, &row, 2, &length, &error));
    UNKNOWN(onedraw_batch_verify(batch, sequence, &draft, &rows, NULL, &again, path, 1, &count, &error));
    OK(onedraw_batch_count(batch, &count, &error));
    CHECK(count == 2);

    onedraw_params *params = params_of("{\"n\": 4, \"seed\": 1}");
    FAILS(onedraw_batch_add_all(batch, params, all, 3, &count, &error), ONEDRAW_TOO_SMALL, "sequences",
          "sequences: has room for 3, and 4 are needed");
    OK(onedraw_batch_add_all(batch, params, all, 4, &count, &error));
    CHECK(count == 4);
    OK(onedraw_params_free(params, &error));
    OK(onedraw_batch_count(batch, &count, &error));
    CHECK(count == 6);
}

/* What golden.c does not: chains, refusals, a grammar in test_grammars. */
static void verification(onedraw_batch *batch) {
    onedraw_error error;
    onedraw_sampled sampled[3];
    size_t path[3], drawn;
    onedraw_error of_row;
    onedraw_token_logprob logprobs[2];
    onedraw_kept kept;
    uint32_t id;
    size_t count;
    onedraw_sequence sequence = add(batch, "{\"temperature\": 0, \"logprobs\": 2, \"kept\": \"ids\"}");
    float logits[3][3] = {{0.0f, 2.0f, 1.0f}, {3.0f, 0.0f, 1.0f}, {0.0f, 0.0f, 5.0f}};
    const uint32_t guesses[] = {1, 1};
    onedraw_draft draft = {.tokens = guesses, .count = 2};
    onedraw_rows rows = {.logits = logits, .count = 3, .vocabulary = 3};
    OK(onedraw_batch_verify(batch, sequence, &draft, &rows, NULL, sampled, path, 3, &drawn, &error));
    CHECK(drawn == 2 && path[0] == 0 && sampled[0].token == 1 && sampled[1].token == 0);
    for (size_t i = 0; i < drawn; i++) {
        OK(onedraw_batch_logprobs(batch, i, logprobs, 2, &count, &error));
        CHECK(count == 2 && sampled[i].logprobs == 2 && logprobs[0].token == sampled[i].token && logprobs[1].token == 2);
        OK(onedraw_batch_kept(batch, i, &kept, &id, 1, &count, &error));
        CHECK(count == 1 && id == sampled[i].token);
    }
    FAILS(onedraw_batch_logprobs(batch, 2, logprobs, 2, &count, &error), ONEDRAW_NOTHING, "nothing",
          "the last call drew 2 rows, and no row 2");
    FAILS(onedraw_batch_verify(batch, sequence, &draft, &rows, NULL, sampled, path, 2, &drawn, &error), ONEDRAW_TOO_SMALL,
          "sampled", "sampled: has room for 2, and 3 are needed");
    logits[1][1] = NAN;
    FAILS(onedraw_batch_verify(batch, sequence, &draft, &rows, NULL, sampled, path, 3, &drawn, &error), ONEDRAW_BAD_ROW,
          "nan_logit", "the logit of token 1 is NaN; logits are finite or -inf (masked)");
    CHECK(drawn == 1 && sampled[0].token == 1);
    OK(onedraw_batch_logprobs(batch, 0, logprobs, 2, &count, &error));
    CHECK(logprobs[0].token == 1);
    CHECK(onedraw_batch_logprobs(batch, 1, logprobs, 2, &count, &error) == ONEDRAW_BAD_ROW);
    OK(onedraw_batch_row_error(batch, 1, &of_row, &error));
    CHECK(of_row.status == ONEDRAW_BAD_ROW && strcmp(of_row.kind, "nan_logit") == 0);
    rows.count = 2;
    FAILS(onedraw_batch_verify(batch, sequence, &draft, &rows, NULL, sampled, path, 3, &drawn, &error), ONEDRAW_BAD_ARGUMENT,
          "rows", "rows: there are 2 rows, and 3 are needed");
    CHECK(drawn == 0);

    /* Rows anywhere in memory. */
    logits[1][1] = 0.0f;
    const void *pointers[] = {logits[0], logits[1], logits[2]};
    rows = (onedraw_rows){.pointers = pointers, .count = 3, .vocabulary = 3};
    OK(onedraw_batch_verify(batch, sequence, &draft, &rows, NULL, sampled, path, 3, &drawn, &error));
    CHECK(drawn == 2 && path[0] == 0 && sampled[0].token == 1 && sampled[1].token == 0);
    rows.count = 1;
    pointers[0] = logits[2];
    OK(onedraw_batch_peek(batch, &sequence, &rows, 0, sampled, &error));
    CHECK(sampled[0].token == 2);
    pointers[0] = NULL;
    FAILS(onedraw_batch_peek(batch, &sequence, &rows, 0, sampled, &error), ONEDRAW_BAD_ARGUMENT, "logits", "logits: is NULL");
    rows.stride = 3;
    FAILS(onedraw_batch_peek(batch, &sequence, &rows, 0, sampled, &error), ONEDRAW_BAD_ARGUMENT, "stride",
          "stride: must be zero where there are pointers");
    rows.logits = logits;
    FAILS(onedraw_batch_peek(batch, &sequence, &rows, 0, sampled, &error), ONEDRAW_BAD_ARGUMENT, "logits",
          "logits: must be zero where there are pointers");
    rows = (onedraw_rows){.logits = logits, .count = 3, .vocabulary = 3, .mask_words = 1};
    FAILS(onedraw_batch_peek(batch, &sequence, &rows, 0, sampled, &error), ONEDRAW_BAD_ARGUMENT, "masks",
          "masks: is NULL, and mask_words is 1");
    const uint32_t mask[] = {7};
    const uint32_t *const masks[] = {NULL, mask, NULL};
    rows.masks = masks;
    FAILS(onedraw_batch_verify(batch, sequence, &draft, &rows, NULL, sampled, path, 3, &drawn, &error), ONEDRAW_BAD_ARGUMENT,
          "masks", "masks: must be NULL here; the matcher has them");
    rows = (onedraw_rows){.logits = logits, .count = 3, .vocabulary = 3};

    const int32_t parents[] = {ONEDRAW_ROOT, 1};
    draft.parents = parents;
    FAILS(onedraw_batch_verify(batch, sequence, &draft, &rows, NULL, sampled, path, 3, &drawn, &error), ONEDRAW_BAD_ARGUMENT,
          "parents", "parents: guess 1 follows 1, which is no guess before it");
}

void test_batches(void) {
    onedraw_error error;
    onedraw_batch *batch;
    OK(onedraw_batch_new(1, &batch, &error));
    rows_that_fail(batch);
    OK(onedraw_batch_free(batch, &error));
    OK(onedraw_batch_new(1, &batch, &error));
    sequences(batch);
    verification(batch);
    OK(onedraw_batch_free(batch, &error));
    FAILS(onedraw_batch_new(5000, &batch, &error), ONEDRAW_BAD_PARAMETER, "threads", "threads: must be in [0, 1024], not 5000");
}
