/* Samplers: draws, histories, and what is told beside the token. */
#include "check.h"

#include <math.h>

static const float LOGITS[] = {1.0f, 3.5f, 0.2f, 2.9f};
static const onedraw_row ROW = {.logits = LOGITS, .vocabulary = 4};

static uint32_t sample(onedraw_sampler *sampler) {
    onedraw_error error;
    onedraw_sampled sampled;
    OK(onedraw_sampler_sample(sampler, &ROW, &sampled, &error));
    return sampled.token;
}

static void histories(void) {
    onedraw_error error;
    onedraw_sampled sampled;
    uint32_t output[8];
    size_t count;
    uint64_t seed;
    onedraw_sampler *sampler = sampler_of("{\"temperature\": 0.8, \"repetition_penalty\": 1.3, \"seed\": 7}");
    const uint32_t expected[] = {3, 1, 3, 0, 1};
    for (int i = 0; i < 5; i++) CHECK(sample(sampler) == expected[i]);
    OK(onedraw_sampler_output(sampler, output, COUNT(output), &count, &error));
    CHECK(count == 5 && memcmp(output, expected, sizeof expected) == 0);
    FAILS(onedraw_sampler_output(sampler, output, 2, &count, &error), ONEDRAW_TOO_SMALL, "tokens",
          "tokens: has room for 2, and 5 are needed");
    CHECK(count == 5);
    OK(onedraw_sampler_seed(sampler, &seed, &error));
    CHECK(seed == 7);

    /* Saved, loaded, copied, taken back: the same tokens again. */
    char json[8192];
    size_t length;
    onedraw_sampler *loaded, *clone;
    OK(onedraw_sampler_save(sampler, json, sizeof json, &length, &error));
    CHECK(length == strlen(json));
    OK(onedraw_sampler_load(json, &loaded, &error));
    OK(onedraw_sampler_clone(sampler, &clone, &error));
    uint32_t next = sample(sampler);
    CHECK(sample(loaded) == next && sample(clone) == next);
    OK(onedraw_sampler_rewind(sampler, 3, &error));
    CHECK(sample(sampler) == expected[3] && sample(sampler) == expected[4] && sample(sampler) == next);
    OK(onedraw_sampler_free(loaded, &error));
    CHECK(onedraw_sampler_load("{}", &loaded, &error) == ONEDRAW_BAD_ARGUMENT && strcmp(error.kind, "json") == 0);
    CHECK(strstr(error.message, "json: is no saved sequence: ") == error.message);

    /* Peeked and accepted is sampled. */
    OK(onedraw_sampler_rewind(sampler, 0, &error));
    OK(onedraw_sampler_peek(sampler, &ROW, 0, &sampled, &error));
    OK(onedraw_sampler_accept_sampled(sampler, &sampled, &error));
    OK(onedraw_sampler_accept(sampler, expected[1], &error));
    CHECK(sample(sampler) == expected[2]);
    FAILS(onedraw_sampler_accept_sampled(sampler, &sampled, &error), ONEDRAW_BAD_ARGUMENT, "sampled",
          "sampled: was drawn at position 0, and the next one is 3");
    sampled.status = ONEDRAW_BAD_ROW;
    FAILS(onedraw_sampler_accept_sampled(sampler, &sampled, &error), ONEDRAW_BAD_ARGUMENT, "sampled",
          "sampled: was not drawn: its status is 6");

    /* A token that was taken back is banned there. */
    OK(onedraw_sampler_take_back(sampler, 0, expected[0], &error));
    for (int i = 0; i < 3; i++) {
        OK(onedraw_sampler_peek(sampler, &ROW, 0, &sampled, &error));
        CHECK(sampled.position == 0 && sampled.token != expected[0]);
        OK(onedraw_sampler_take_back(sampler, 0, sampled.token, &error));
    }
    FAILS(onedraw_sampler_peek(sampler, &ROW, 0, &sampled, &error), ONEDRAW_BAD_ROW, "nothing_left",
          "no token is left after the stage bad_words");
    OK(onedraw_sampler_free(sampler, &error));
    OK(onedraw_sampler_free(clone, &error));
}

/* A sampler that is used for one text after another. */
static void used_again(void) {
    onedraw_error error;
    onedraw_sampled sampled;
    uint32_t first[6], output[2];
    size_t count, length;
    uint64_t seed, same;
    static char made[8192], after[8192];
    onedraw_sampler *loaded, *sampler = sampler_of("{\"mirostat\": 2, \"repetition_penalty\": 1.3, \"output_token_ids\": [2]}");
    OK(onedraw_sampler_seed(sampler, &seed, &error));
    OK(onedraw_sampler_save(sampler, made, sizeof made, &length, &error));
    for (int i = 0; i < 6; i++) first[i] = sample(sampler);
    OK(onedraw_sampler_take_back(sampler, 1, first[0], &error));
    OK(onedraw_sampler_reset(sampler, &error));
    OK(onedraw_sampler_seed(sampler, &same, &error));
    CHECK(same == seed);
    OK(onedraw_sampler_save(sampler, after, sizeof after, &length, &error));
    CHECK(strcmp(made, after) == 0);
    for (int i = 0; i < 6; i++) CHECK(sample(sampler) == first[i]);

    /* One that is loaded begins where it was saved. */
    OK(onedraw_sampler_take_back(sampler, 3, first[2], &error));
    OK(onedraw_sampler_save(sampler, made, sizeof made, &length, &error));
    OK(onedraw_sampler_load(made, &loaded, &error));
    for (int i = 0; i < 6; i++) first[i] = sample(loaded);
    OK(onedraw_sampler_reset(loaded, &error));
    OK(onedraw_sampler_save(loaded, after, sizeof after, &length, &error));
    CHECK(strcmp(made, after) == 0);
    for (int i = 0; i < 6; i++) CHECK(sample(loaded) == first[i]);
    OK(onedraw_sampler_free(loaded, &error));
    OK(onedraw_sampler_free(sampler, &error));

    /* A prompt that is given later is the one that is given at first. */
    const uint32_t prompt[] = {1, 1, 3};
    onedraw_sampler *other = sampler_of("{\"prompt_token_ids\": [1, 1, 3], \"repetition_penalty\": 3, \"seed\": 5}");
    sampler = sampler_of("{\"prompt_token_ids\": [0], \"repetition_penalty\": 3, \"seed\": 5}");
    OK(onedraw_sampler_set_prompt(sampler, prompt, COUNT(prompt), &error));
    for (int i = 0; i < 6; i++) CHECK((first[i] = sample(sampler)) == sample(other));
    OK(onedraw_sampler_save(sampler, made, sizeof made, &length, &error));
    OK(onedraw_sampler_save(other, after, sizeof after, &length, &error));
    CHECK(strcmp(made, after) == 0);
    /* Its ids are checked as those of the parameters are. */
    OK(onedraw_sampler_rewind(sampler, 2, &error));
    const uint32_t outside[] = {4};
    OK(onedraw_sampler_set_prompt(sampler, outside, 1, &error));
    FAILS(onedraw_sampler_sample(sampler, &ROW, &sampled, &error), ONEDRAW_BAD_ROW, "outside_vocabulary",
          "prompt_token_ids: token 4 is outside the vocabulary; ids of this row are 0 to 3");
    OK(onedraw_sampler_output(sampler, output, 2, &count, &error));
    CHECK(count == 2 && memcmp(output, first, sizeof output) == 0);
    OK(onedraw_sampler_set_prompt(sampler, NULL, 0, &error));
    OK(onedraw_sampler_sample(sampler, &ROW, &sampled, &error));
    CHECK(sampled.position == 2);
    FAILS(onedraw_sampler_set_prompt(sampler, NULL, 1, &error), ONEDRAW_BAD_ARGUMENT, "tokens", "tokens: is NULL");
    OK(onedraw_sampler_free(sampler, &error));
    OK(onedraw_sampler_free(other, &error));
}

static void reports(void) {
    onedraw_error error;
    onedraw_sampled sampled;
    onedraw_token_logprob logprobs[4];
    onedraw_kept kept;
    uint32_t ids[4];
    size_t count;
    onedraw_sampler *sampler = sampler_of("{\"temperature\": 0, \"logprobs\": 2, \"logprobs_mode\": \"raw_logits\", \"kept\": \"ids\"}");
    FAILS(onedraw_sampler_logprobs(sampler, 0, logprobs, 4, &count, &error), ONEDRAW_NOTHING, "nothing",
          "the last call drew 0 tokens, and no token 0");
    OK(onedraw_sampler_sample(sampler, &ROW, &sampled, &error));
    CHECK(sampled.token == 1 && sampled.probability == 1.0 && sampled.logprob == 3.5 && sampled.rank == 1);
    CHECK(sampled.logprobs == 2 && isnan(sampled.mirostat_mu));
    OK(onedraw_sampler_logprobs(sampler, 0, logprobs, 4, &count, &error));
    CHECK(count == 2 && logprobs[0].token == 1 && logprobs[0].rank == 1 && logprobs[0].logprob == 3.5);
    CHECK(logprobs[1].token == 3 && logprobs[1].rank == 2 && logprobs[1].logprob == (double)2.9f);
    FAILS(onedraw_sampler_logprobs(sampler, 0, logprobs, 1, &count, &error), ONEDRAW_TOO_SMALL, "logprobs",
          "logprobs: has room for 1, and 2 are needed");
    OK(onedraw_sampler_kept(sampler, 0, &kept, ids, 4, &count, &error));
    CHECK(kept.count == 1 && kept.is_prefix == 1 && kept.last_token == 1 && kept.last_logit == 3.5f && kept.ln_mass == 0.0);
    CHECK(count == 1 && ids[0] == 1);
    OK(onedraw_sampler_free(sampler, &error));

    /* Not asked for: not told. */
    sampler = sampler_of("{\"seed\": 1, \"mirostat\": 2}");
    OK(onedraw_sampler_sample(sampler, &ROW, &sampled, &error));
    CHECK(isnan(sampled.probability) && isnan(sampled.logprob) && sampled.rank == 0 && sampled.logprobs == 0);
    CHECK(sampled.mirostat_mu > 9.0 && sampled.mirostat_mu < 12.0);
    FAILS(onedraw_sampler_kept(sampler, 0, &kept, ids, 4, &count, &error), ONEDRAW_NOTHING, "nothing",
          "the parameter kept did not ask for the kept set");
    OK(onedraw_sampler_free(sampler, &error));
}

/* What is told of the tokens of a verification, and that nothing is told of what failed. */
static void reports_of_tokens(void) {
    onedraw_error error;
    onedraw_sampled sampled[3];
    onedraw_token_logprob logprobs[2];
    onedraw_kept kept;
    uint32_t id;
    size_t path[3], drawn, count;
    float logits[3][3] = {{0.0f, 2.0f, 1.0f}, {3.0f, 0.0f, 1.0f}, {0.0f, 0.5f, 5.0f}};
    const uint32_t guesses[] = {1, 0};
    const onedraw_draft draft = {.tokens = guesses, .count = 2};
    const onedraw_rows rows = {.logits = logits, .count = 3, .vocabulary = 3};
    onedraw_sampler *sampler = sampler_of("{\"temperature\": 0, \"logprobs\": 1, \"logprobs_mode\": \"raw_logits\", \"kept\": \"ids\"}");
    OK(onedraw_sampler_sample(sampler, &ROW, &sampled[0], &error));
    OK(onedraw_sampler_verify(sampler, &draft, &rows, NULL, sampled, path, 3, &drawn, &error));
    CHECK(drawn == 3);
    for (size_t i = 0; i < 3; i++) {
        const uint32_t token = i < 2 ? guesses[i] : 2;
        CHECK(sampled[i].token == token && sampled[i].logprobs > 0);
        OK(onedraw_sampler_logprobs(sampler, i, logprobs, 2, &count, &error));
        CHECK(count == sampled[i].logprobs && logprobs[0].token == token && logprobs[0].logprob == (double)logits[i][token]);
        OK(onedraw_sampler_kept(sampler, i, &kept, &id, 1, &count, &error));
        CHECK(count == 1 && id == token && kept.last_logit == logits[i][token]);
    }
    FAILS(onedraw_sampler_logprobs(sampler, 3, logprobs, 2, &count, &error), ONEDRAW_NOTHING, "nothing",
          "the last call drew 3 tokens, and no token 3");

    /* Of a verification that fails there is what it drew before. */
    logits[1][1] = NAN;
    CHECK(onedraw_sampler_verify(sampler, &draft, &rows, NULL, sampled, path, 3, &drawn, &error) == ONEDRAW_BAD_ROW && drawn == 1);
    OK(onedraw_sampler_logprobs(sampler, 0, logprobs, 2, &count, &error));
    CHECK(logprobs[0].token == 1 && logprobs[0].logprob == 2.0);
    FAILS(onedraw_sampler_kept(sampler, 1, &kept, &id, 1, &count, &error), ONEDRAW_NOTHING, "nothing",
          "the last call drew 1 tokens, and no token 1");

    /* Of a draw that fails there is nothing. */
    const onedraw_row bad = {.logits = logits[1], .vocabulary = 3};
    CHECK(onedraw_sampler_peek(sampler, &bad, 0, &sampled[0], &error) == ONEDRAW_BAD_ROW);
    FAILS(onedraw_sampler_logprobs(sampler, 0, logprobs, 2, &count, &error), ONEDRAW_NOTHING, "nothing",
          "the last call drew 0 tokens, and no token 0");
    OK(onedraw_sampler_sample(sampler, &ROW, &sampled[0], &error));
    CHECK(onedraw_sampler_sample_uniform(sampler, &bad, 0.5, &sampled[0], &error) == ONEDRAW_BAD_ROW);
    CHECK(onedraw_sampler_kept(sampler, 0, &kept, &id, 1, &count, &error) == ONEDRAW_NOTHING);
    OK(onedraw_sampler_free(sampler, &error));
}

/* Draws that are not of this sampler, and positions that there are not. */
static void foreign_draws(void) {
    onedraw_error error;
    onedraw_sampled sampled;
    onedraw_sampler *other, *sampler = sampler_of("{\"seed\": 1}");
    OK(onedraw_sampler_peek(sampler, &ROW, UINT32_MAX, &sampled, &error));
    CHECK(sampled.position == UINT32_MAX);
    OK(onedraw_sampler_accept(sampler, 0, &error));
    FAILS(onedraw_sampler_peek(sampler, &ROW, UINT32_MAX, &sampled, &error), ONEDRAW_BAD_ARGUMENT, "ahead",
          "ahead: must be at most 4294967294 here, not 4294967295");
    OK(onedraw_sampler_rewind(sampler, 0, &error));
    OK(onedraw_sampler_peek(sampler, &ROW, 0, &sampled, &error));
    other = sampler_of("{\"seed\": 2}");
    FAILS(onedraw_sampler_accept_sampled(other, &sampled, &error), ONEDRAW_BAD_ARGUMENT, "sampled",
          "sampled: was drawn with seed 1 for sequence 0, and here they are 2 and 0");
    OK(onedraw_sampler_free(other, &error));
    onedraw_params *params = params_of("{\"seed\": 1, \"n\": 2}");
    OK(onedraw_sampler_new_sequence(params, 1, &other, &error));
    FAILS(onedraw_sampler_accept_sampled(other, &sampled, &error), ONEDRAW_BAD_ARGUMENT, "sampled",
          "sampled: was drawn with seed 1 for sequence 0, and here they are 1 and 1");
    OK(onedraw_params_free(params, &error));
    OK(onedraw_sampler_accept_sampled(sampler, &sampled, &error));
    OK(onedraw_sampler_free(other, &error));
    OK(onedraw_sampler_free(sampler, &error));
}

static void rows(void) {
    onedraw_error error;
    onedraw_sampled sampled;
    onedraw_probability distribution[4];
    size_t count, length, needed;
    char json[4096];
    onedraw_sampler *sampler = sampler_of("{\"temperature\": 0.8, \"top_p\": 0.9, \"seed\": 42}");
    OK(onedraw_sampler_distribution(sampler, &ROW, distribution, 4, &count, &error));
    CHECK(count == 2 && distribution[0].token == 1 && distribution[1].token == 3);
    CHECK(fabs(distribution[0].probability + distribution[1].probability - 1.0) < 1e-6);
    CHECK(fabs(exp(distribution[1].logprob) - distribution[1].probability) < 1e-12);

    const uint32_t only_2[] = {1u << 2};
    onedraw_row masked = {.logits = LOGITS, .vocabulary = 4, .mask = only_2, .mask_words = 1};
    OK(onedraw_sampler_sample(sampler, &masked, &sampled, &error));
    CHECK(sampled.token == 2);
    OK(onedraw_sampler_peek(sampler, &masked, 5, &sampled, &error));
    CHECK(sampled.token == 2 && sampled.position == 6);
    FAILS(onedraw_sampler_sample_uniform(sampler, &masked, 0.5, &sampled, &error), ONEDRAW_BAD_ARGUMENT, "mask",
          "mask: must be NULL here");
    FAILS(onedraw_sampler_sample_uniform(sampler, &ROW, 1.0, &sampled, &error), ONEDRAW_BAD_ARGUMENT, "uniform",
          "uniform: must be in [0, 1), not 1");

    FAILS(onedraw_sampler_json(sampler, json, sizeof json, &length, &error), ONEDRAW_NOTHING, "nothing",
          "this sampler has explained nothing yet");
    OK(onedraw_sampler_explain(sampler, &ROW, 3, &needed, &error));
    CHECK(needed > 100);
    CHECK(onedraw_sampler_json(sampler, NULL, 0, &length, &error) == ONEDRAW_TOO_SMALL && length == needed + 1);
    CHECK(onedraw_sampler_json(sampler, json, needed, &length, &error) == ONEDRAW_TOO_SMALL && length == needed + 1);
    OK(onedraw_sampler_json(sampler, json, needed + 1, &length, &error));
    CHECK(length == needed && length == strlen(json));
    CHECK(strstr(json, "\"stage\":\"temperature\"") && strstr(json, "\"stage\":\"top_p\""));
    OK(onedraw_sampler_explain(sampler, &masked, 3, &needed, &error));
    OK(onedraw_sampler_json(sampler, json, sizeof json, &length, &error));
    CHECK(strstr(json, "],\"token\":2,\"probability\":1.0"));

    float bad[4] = {0.0f, NAN, 1.0f, INFINITY};
    onedraw_row bad_row = {.logits = bad, .vocabulary = 4};
    FAILS(onedraw_sampler_sample(sampler, &bad_row, &sampled, &error), ONEDRAW_BAD_ROW, "nan_logit",
          "the logit of token 1 is NaN; logits are finite or -inf (masked)");
    onedraw_row empty = {.logits = NULL, .vocabulary = 0};
    FAILS(onedraw_sampler_sample(sampler, &empty, &sampled, &error), ONEDRAW_BAD_ROW, "empty_row",
          "the row has no logits; at least one is needed");
    OK(onedraw_sampler_free(sampler, &error));

    /* Of n sequences each has its noise. */
    onedraw_params *params = params_of("{\"n\": 3, \"seed\": 5, \"prompt_token_ids\": [1, 2], \"prompt_logprobs\": 1}");
    OK(onedraw_sampler_new_sequence(params, 2, &sampler, &error));
    OK(onedraw_sampler_sample(sampler, &ROW, &sampled, &error));
    CHECK(sampled.sequence == 2 && sampled.seed == 5);
    onedraw_sampler *none;
    FAILS(onedraw_sampler_new_sequence(params, 3, &none, &error), ONEDRAW_BAD_PARAMETER, "sequence",
          "sequence: must be below n (3), not 3");
    onedraw_rows prompt = {.logits = LOGITS, .count = 1, .vocabulary = 4};
    OK(onedraw_sampler_prompt_logprobs(sampler, &prompt, &needed, &error));
    OK(onedraw_sampler_json(sampler, json, sizeof json, &length, &error));
    CHECK(length == needed && strncmp(json, "[null,{", 7) == 0 && strstr(json, "\"rank\":4"));
    const uint32_t *const masks[] = {only_2};
    prompt.masks = masks;
    prompt.mask_words = 1;
    FAILS(onedraw_sampler_prompt_logprobs(sampler, &prompt, &length, &error), ONEDRAW_BAD_ARGUMENT, "masks",
          "masks: must be NULL here; a prompt has no grammar");
    const void *const pointers[] = {LOGITS};
    prompt = (onedraw_rows){.pointers = pointers, .count = 1, .vocabulary = 4};
    FAILS(onedraw_sampler_prompt_logprobs(sampler, &prompt, &length, &error), ONEDRAW_BAD_ARGUMENT, "pointers",
          "pointers: must be NULL here; the rows must be in one buffer");
    prompt = (onedraw_rows){.logits = LOGITS, .count = 1, .vocabulary = 4};
    prompt.logits = bad;
    OK(onedraw_sampler_prompt_logprobs(sampler, &prompt, &length, &error));
    OK(onedraw_sampler_json(sampler, json, sizeof json, &length, &error));
    CHECK(strstr(json, "[null,{\"error\":{") == json && strstr(json, "\"kind\":\"nan_logit\""));
    OK(onedraw_sampler_free(sampler, &error));
    OK(onedraw_params_free(params, &error));
}

void test_samplers(void) {
    histories();
    used_again();
    reports();
    reports_of_tokens();
    foreign_draws();
    rows();
}
