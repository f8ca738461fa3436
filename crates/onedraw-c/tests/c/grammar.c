/* Texts that keep to a grammar. */
#include "check.h"

/* The tokens of the tests; token 0 ends a text. */
static onedraw_vocabulary *vocabulary_of_tests(void) {
    static const char *tokens[] = {"", "y", "n", "yes", "no", "e", "es", "o", "s", "maybe"};
    onedraw_error error;
    onedraw_vocabulary *vocabulary;
    uint8_t bytes[64];
    size_t offsets[COUNT(tokens) + 1] = {0};
    for (size_t i = 0; i < COUNT(tokens); i++) {
        memcpy(bytes + offsets[i], tokens[i], strlen(tokens[i]));
        offsets[i + 1] = offsets[i] + strlen(tokens[i]);
    }
    const uint32_t eos[] = {0};
    FAILS(onedraw_vocabulary_new(bytes, offsets, COUNT(tokens), NULL, 0, NULL, 0, &vocabulary, &error), ONEDRAW_BAD_GRAMMAR,
          "vocabulary", "no token ends a text: give the ids with `eos`");
    size_t falling[] = {0, 2, 1};
    FAILS(onedraw_vocabulary_new(bytes, falling, 2, eos, 1, NULL, 0, &vocabulary, &error), ONEDRAW_BAD_ARGUMENT, "offsets",
          "offsets: must begin with 0 and not fall");
    OK(onedraw_vocabulary_new(bytes, offsets, COUNT(tokens), eos, 1, NULL, 0, &vocabulary, &error));
    return vocabulary;
}

static onedraw_matcher *matcher_of(onedraw_vocabulary *vocabulary, const char *kind, const char *text) {
    onedraw_error error;
    onedraw_grammar *grammar;
    onedraw_matcher *matcher;
    OK(onedraw_grammar_new(vocabulary, kind, text, &grammar, &error));
    OK(onedraw_matcher_new(grammar, &matcher, &error));
    OK(onedraw_grammar_free(grammar, &error));
    return matcher;
}

static uint32_t mask_of(onedraw_matcher *matcher) {
    onedraw_error error;
    uint32_t word;
    size_t count;
    OK(onedraw_matcher_mask(matcher, &word, 1, &count, &error));
    CHECK(count == 1);
    return word;
}

void test_grammars(void) {
    onedraw_error error;
    onedraw_vocabulary *vocabulary = vocabulary_of_tests();
    onedraw_matcher *clone, *matcher = matcher_of(vocabulary, "choices", "[\"yes\", \"no\"]");
    const float logits[2][10] = {{0.0f, 1.0f, 2.0f, 0.5f, 0.1f, 3.0f, 0.0f, 0.0f, 1.0f, 9.0f},
                                 {0.0f, 1.0f, 2.0f, 0.5f, 0.1f, 3.0f, 0.0f, 0.0f, 1.0f, 9.0f}};
    CHECK(mask_of(matcher) == (1u << 1 | 1u << 2 | 1u << 3 | 1u << 4));
    OK(onedraw_matcher_clone(matcher, &clone, &error));

    /* Drawn under the mask: "n", "o", and the end. */
    onedraw_sampler *sampler = sampler_of("{\"temperature\": 0}");
    const uint32_t expected[] = {2, 7, 0};
    for (size_t i = 0; i < COUNT(expected); i++) {
        uint32_t mask = mask_of(matcher);
        onedraw_row row = {.logits = logits[0], .vocabulary = 10, .mask = &mask, .mask_words = 1};
        onedraw_sampled sampled;
        int32_t may_end;
        OK(onedraw_matcher_may_end(matcher, &may_end, &error));
        CHECK(may_end == (i == 2));
        OK(onedraw_sampler_sample(sampler, &row, &sampled, &error));
        CHECK(sampled.token == expected[i]);
        OK(onedraw_matcher_accept(matcher, sampled.token, &error));
    }
    OK(onedraw_matcher_rollback(matcher, 3, &error));
    CHECK(mask_of(matcher) == mask_of(clone));
    CHECK(onedraw_matcher_rollback(matcher, 1, &error) == ONEDRAW_BAD_TEXT);
    FAILS(onedraw_matcher_accept(matcher, 9, &error), ONEDRAW_BAD_TEXT, "constraint",
          "token 9 (\"maybe\") cannot come at 0: the grammar does not go on with it");
    uint32_t forced[4];
    size_t count;
    OK(onedraw_matcher_accept(clone, 3, &error));
    OK(onedraw_matcher_forced(clone, forced, 4, &count, &error));
    CHECK(count == 1 && forced[0] == 0);

    /* Verified under the grammar: the guess is what would be drawn, and the sequence and the text stay. */
    onedraw_batch *batch;
    onedraw_sequence sequence;
    onedraw_params *params = params_of("{\"temperature\": 0}");
    OK(onedraw_batch_new(1, &batch, &error));
    OK(onedraw_batch_add(batch, params, &sequence, &error));
    OK(onedraw_params_free(params, &error));
    const uint32_t guess[] = {2};
    onedraw_draft draft = {.tokens = guess, .count = 1};
    onedraw_rows rows = {.logits = logits, .count = 2, .vocabulary = 10};
    onedraw_sampled sampled[2];
    size_t path[2], drawn;
    OK(onedraw_batch_verify(batch, sequence, &draft, &rows, matcher, sampled, path, 2, &drawn, &error));
    CHECK(drawn == 2 && sampled[0].token == 2 && sampled[1].token == 7);
    CHECK(mask_of(matcher) == (1u << 1 | 1u << 2 | 1u << 3 | 1u << 4));
    OK(onedraw_batch_free(batch, &error));
    OK(onedraw_matcher_free(matcher, &error));
    OK(onedraw_matcher_free(clone, &error));
    OK(onedraw_sampler_free(sampler, &error));

    matcher = matcher_of(vocabulary, "regex", "(no)+");
    CHECK(mask_of(matcher) == (1u << 2 | 1u << 4));
    OK(onedraw_matcher_free(matcher, &error));
    onedraw_grammar *grammar;
    FAILS(onedraw_grammar_new(vocabulary, "regex", "(no", &grammar, &error), ONEDRAW_BAD_GRAMMAR, "malformed",
          "line 1, column 1: unclosed group");
    CHECK(grammar == NULL);
    CHECK(onedraw_grammar_new(vocabulary, "poem", "", &grammar, &error) == ONEDRAW_BAD_ARGUMENT && strcmp(error.kind, "kind") == 0);
    CHECK(onedraw_grammar_new(vocabulary, "json_schema", "{\"type\": \"integer\"}", &grammar, &error) == ONEDRAW_BAD_GRAMMAR);
    OK(onedraw_vocabulary_free(vocabulary, &error));
}
