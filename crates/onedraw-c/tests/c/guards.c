/* What is written, and what is not: outputs lie between bytes that stay as they are. The sanitizers do not see what the
   library writes. */
#include "check.h"

enum { V = 5, MARK = 0xa5 };

/* `count` values between other bytes. */
#define GUARDED(type, name, count)         \
    static struct {                        \
        unsigned char before[64];          \
        type values[count];                \
        unsigned char after[64];           \
    } name

static int is_untouched(const void *from, const void *to) {
    for (const unsigned char *byte = from; byte < (const unsigned char *)to; byte++)
        if (*byte != MARK) return 0;
    return 1;
}

#define PREPARE(name) memset(&(name), MARK, sizeof(name))

/* Only the first `used` values were written. */
#define WROTE(name, used)                                                             \
    CHECK(is_untouched((name).before, (name).values) && is_untouched((name).values + (used), (name).after + sizeof (name).after))

/* The call writes `used` values there, and one count. */
#define FILLS(name, used, call)       \
    do {                              \
        PREPARE(name);                \
        PREPARE(count);               \
        OK(call);                     \
        CHECK(*count.values == (used)); \
        WROTE(name, used);            \
        WROTE(count, 1);              \
    } while (0)

/* The same for text, which has a zero at its end. */
#define WRITES(name, call)            \
    do {                              \
        PREPARE(name);                \
        PREPARE(count);               \
        OK(call);                     \
        CHECK(*count.values > 0 && (name).values[*count.values] == 0); \
        WROTE(name, *count.values + 1); \
        WROTE(count, 1);              \
    } while (0)

/* The call has too little room: it says how much it needs and writes nothing else. */
#define NEEDS(name, needed, call)     \
    do {                              \
        PREPARE(name);                \
        PREPARE(count);               \
        CHECK((call) == ONEDRAW_TOO_SMALL); \
        CHECK(*count.values == (needed)); \
        WROTE(name, 0);               \
        WROTE(count, 1);              \
    } while (0)

/* The call writes one value. */
#define SETS(name, call)              \
    do {                              \
        PREPARE(name);                \
        OK(call);                     \
        WROTE(name, 1);               \
    } while (0)

GUARDED(size_t, count, 2);
GUARDED(uint32_t, tokens, 8);
GUARDED(char, text, 8192);
GUARDED(onedraw_sampled, sampled, 4);
GUARDED(onedraw_probability, probabilities, V + 1);

static const float LOGITS[] = {1.0f, 3.5f, 0.2f, 2.9f, 2.0f};
static const onedraw_row ROW = {.logits = LOGITS, .vocabulary = V};

static void of_samplers(void) {
    onedraw_error error;
    GUARDED(onedraw_sampler *, handle, 2);
    GUARDED(onedraw_token_logprob, logprobs, 5);
    GUARDED(onedraw_kept, kept, 2);
    GUARDED(uint64_t, seed, 2);
    GUARDED(onedraw_error, told, 2);
    GUARDED(float, row, 7);
    onedraw_params *params = params_of("{\"top_k\": 3, \"logprobs\": 2, \"kept\": \"ids\", \"prompt_token_ids\": [1, 2]}");
    SETS(handle, onedraw_sampler_new(params, handle.values, &error));
    onedraw_sampler *sampler = *handle.values;
    SETS(sampled, onedraw_sampler_peek(sampler, &ROW, 0, sampled.values, &error));
    SETS(sampled, onedraw_sampler_sample_uniform(sampler, &ROW, 0.5, sampled.values, &error));
    SETS(sampled, onedraw_sampler_sample(sampler, &ROW, sampled.values, &error));
    size_t told_logprobs = sampled.values[0].logprobs;
    FILLS(logprobs, told_logprobs, onedraw_sampler_logprobs(sampler, 0, logprobs.values, 4, count.values, &error));
    NEEDS(logprobs, told_logprobs, onedraw_sampler_logprobs(sampler, 0, logprobs.values, 1, count.values, &error));
    PREPARE(kept);
    FILLS(tokens, 3, onedraw_sampler_kept(sampler, 0, kept.values, tokens.values, 8, count.values, &error));
    WROTE(kept, 1);
    PREPARE(kept);
    NEEDS(tokens, 3, onedraw_sampler_kept(sampler, 0, kept.values, tokens.values, 2, count.values, &error));
    WROTE(kept, 0);
    FILLS(probabilities, 3, onedraw_sampler_distribution(sampler, &ROW, probabilities.values, V, count.values, &error));
    NEEDS(probabilities, 3, onedraw_sampler_distribution(sampler, &ROW, probabilities.values, 2, count.values, &error));
    SETS(count, onedraw_sampler_explain(sampler, &ROW, 2, count.values, &error));
    WRITES(text, onedraw_sampler_json(sampler, text.values, sizeof text.values, count.values, &error));
    size_t length = *count.values;
    NEEDS(text, length + 1, onedraw_sampler_json(sampler, text.values, length, count.values, &error));
    WRITES(text, onedraw_sampler_json(sampler, text.values, length + 1, count.values, &error));
    onedraw_rows rows = {.logits = LOGITS, .count = 1, .vocabulary = V};
    SETS(count, onedraw_sampler_prompt_logprobs(sampler, &rows, count.values, &error));
    FILLS(tokens, 2, onedraw_sampler_output(sampler, tokens.values, 8, count.values, &error));
    FILLS(tokens, 2, onedraw_sampler_output(sampler, tokens.values, 2, count.values, &error));
    NEEDS(tokens, 2, onedraw_sampler_output(sampler, tokens.values, 1, count.values, &error));
    SETS(seed, onedraw_sampler_seed(sampler, seed.values, &error));
    WRITES(text, onedraw_sampler_save(sampler, text.values, sizeof text.values, count.values, &error));
    SETS(handle, onedraw_sampler_load(text.values, handle.values, &error));
    OK(onedraw_sampler_free(*handle.values, &error));
    SETS(handle, onedraw_sampler_clone(sampler, handle.values, &error));
    OK(onedraw_sampler_free(*handle.values, &error));

    /* A call that fails writes its error, the NULL instead of a handle, the 0 instead of a number, and nothing else. */
    PREPARE(told);
    PREPARE(sampled);
    const onedraw_row none = {0};
    CHECK(onedraw_sampler_sample(sampler, &none, sampled.values, told.values) == ONEDRAW_BAD_ROW);
    WROTE(told, 1);
    WROTE(sampled, 0);
    PREPARE(handle);
    CHECK(onedraw_sampler_load("{}", handle.values, NULL) == ONEDRAW_BAD_ARGUMENT && *handle.values == NULL);
    WROTE(handle, 1);
    PREPARE(count);
    CHECK(onedraw_sampler_output(NULL, tokens.values, 8, count.values, NULL) == ONEDRAW_BAD_HANDLE && *count.values == 0);
    WROTE(count, 1);

    const int32_t ids[] = {4, 1};
    onedraw_records records = {.ids = ids, .logits = LOGITS, .count = 2};
    PREPARE(row);
    OK(onedraw_row_from_records(&records, row.values, V, &error));
    WROTE(row, V);

    WRITES(text, onedraw_params_to_json(params, text.values, sizeof text.values, count.values, &error));
    GUARDED(onedraw_params *, imported, 2);
    PREPARE(imported);
    WRITES(text, onedraw_params_import("{\"num_beams\": 4}", "huggingface", imported.values, text.values, sizeof text.values, count.values, &error));
    WROTE(imported, 1);
    OK(onedraw_params_free(*imported.values, &error));
    OK(onedraw_sampler_free(sampler, &error));
    OK(onedraw_params_free(params, &error));
}

static void of_batches(void) {
    onedraw_error error;
    GUARDED(onedraw_sequence, sequences, 4);
    GUARDED(onedraw_runner, runners, 4);
    GUARDED(size_t, path, 4);
    GUARDED(onedraw_error, of_row, 2);
    onedraw_batch *batch;
    onedraw_params *params = params_of("{\"n\": 3, \"top_k\": 3, \"logprobs\": 1, \"kept\": \"ids\"}");
    static const float logits[3][V] = {{1, 3, 0, 2, 2}, {0, 1, 2, 3, 4}, {4, 3, 2, 1, 0}};
    const onedraw_rows rows = {.logits = logits, .count = 3, .vocabulary = V};
    OK(onedraw_batch_new(1, &batch, &error));
    FILLS(sequences, 3, onedraw_batch_add_all(batch, params, sequences.values, 4, count.values, &error));
    onedraw_sequence all[3];
    memcpy(all, sequences.values, sizeof all);
    NEEDS(sequences, 3, onedraw_batch_add_all(batch, params, sequences.values, 2, count.values, &error));
    SETS(sequences, onedraw_batch_add(batch, params, sequences.values, &error));
    SETS(sequences, onedraw_batch_fork(batch, all[0], sequences.values, &error));
    SETS(count, onedraw_batch_count(batch, count.values, &error));
    PREPARE(sampled);
    OK(onedraw_batch_peek(batch, all, &rows, 0, sampled.values, &error));
    WROTE(sampled, 3);
    PREPARE(sampled);
    OK(onedraw_batch_sample(batch, all, &rows, sampled.values, &error));
    WROTE(sampled, 3);
    SETS(of_row, onedraw_batch_row_error(batch, 0, of_row.values, &error));
    GUARDED(onedraw_kept, kept, 2);
    PREPARE(kept);
    FILLS(tokens, 3, onedraw_batch_kept(batch, 0, kept.values, tokens.values, 8, count.values, &error));
    WROTE(kept, 1);
    FILLS(tokens, 1, onedraw_batch_output(batch, all[0], tokens.values, 8, count.values, &error));
    FILLS(probabilities, 3, onedraw_batch_distribution(batch, all[0], &ROW, probabilities.values, V, count.values, &error));
    SETS(count, onedraw_batch_explain(batch, all[0], &ROW, 2, count.values, &error));
    WRITES(text, onedraw_batch_json(batch, text.values, sizeof text.values, count.values, &error));
    WRITES(text, onedraw_batch_save(batch, all[0], text.values, sizeof text.values, count.values, &error));
    FILLS(runners, 2, onedraw_batch_runners(batch, all[0], &ROW, runners.values, 2, count.values, &error));

    /* The guess holds: two tokens were drawn, and one number is written to the path. */
    const uint32_t guesses[] = {sampled.values[0].token, 0};
    OK(onedraw_batch_rewind(batch, all[0], 0, &error));
    onedraw_draft draft = {.tokens = guesses, .count = 1};
    const onedraw_rows two = {.logits = logits, .count = 2, .vocabulary = V};
    PREPARE(path);
    FILLS(sampled, 2, onedraw_batch_verify(batch, all[0], &draft, &two, NULL, sampled.values, path.values, 4, count.values, &error));
    WROTE(path, 1);
    draft.count = 2;
    PREPARE(path);
    NEEDS(sampled, 3, onedraw_batch_verify(batch, all[0], &draft, &rows, NULL, sampled.values, path.values, 2, count.values, &error));
    WROTE(path, 0);
    OK(onedraw_batch_free(batch, &error));
    OK(onedraw_params_free(params, &error));
}

static void of_texts(void) {
    onedraw_error error;
    GUARDED(onedraw_progress, progress, 2);
    GUARDED(uint8_t, bytes, 16);
    GUARDED(int32_t, flag, 2);
    onedraw_stop *stop;
    onedraw_params *params = params_of("{\"stop\": [\"END\"], \"max_tokens\": 2}");
    OK(onedraw_stop_new(params, &stop, &error));
    SETS(progress, onedraw_stop_push(stop, 1, (const uint8_t *)"the E", 5, progress.values, &error));
    FILLS(bytes, 4, onedraw_stop_text(stop, bytes.values, 16, count.values, &error));
    NEEDS(bytes, 4, onedraw_stop_text(stop, bytes.values, 3, count.values, &error));
    FILLS(bytes, 1, onedraw_stop_held_back(stop, bytes.values, 16, count.values, &error));
    SETS(count, onedraw_stop_finish(stop, count.values, &error));
    OK(onedraw_stop_free(stop, &error));

    onedraw_vocabulary *vocabulary;
    onedraw_grammar *grammar;
    onedraw_matcher *matcher;
    const size_t offsets[] = {0, 0, 1, 2};
    const uint32_t eos[] = {0};
    OK(onedraw_vocabulary_new((const uint8_t *)"ab", offsets, 3, eos, 1, NULL, 0, &vocabulary, &error));
    OK(onedraw_grammar_new(vocabulary, "choices", "[\"ab\"]", &grammar, &error));
    OK(onedraw_matcher_new(grammar, &matcher, &error));
    FILLS(tokens, 1, onedraw_matcher_mask(matcher, tokens.values, 8, count.values, &error));
    CHECK(tokens.values[0] == 1u << 1);
    OK(onedraw_matcher_accept(matcher, 1, &error));
    OK(onedraw_matcher_accept(matcher, 2, &error));
    FILLS(tokens, 1, onedraw_matcher_forced(matcher, tokens.values, 8, count.values, &error));
    NEEDS(tokens, 1, onedraw_matcher_forced(matcher, tokens.values, 0, count.values, &error));
    SETS(flag, onedraw_matcher_may_end(matcher, flag.values, &error));
    OK(onedraw_matcher_free(matcher, &error));
    OK(onedraw_grammar_free(grammar, &error));
    OK(onedraw_vocabulary_free(vocabulary, &error));

    GUARDED(onedraw_branch, branches, 8);
    GUARDED(onedraw_hypothesis, hypothesis, 2);
    onedraw_beams *beams;
    onedraw_rows rows = {.logits = LOGITS, .count = 1, .vocabulary = V};
    OK(onedraw_beams_new(params, NULL, &beams, &error));
    PREPARE(count);
    SETS(flag, onedraw_beams_count(beams, count.values, flag.values, &error));
    WROTE(count, 1);
    FILLS(branches, 4, onedraw_beams_step(beams, &rows, NULL, NULL, branches.values, 8, count.values, &error));
    FILLS(tokens, 1, onedraw_beams_tokens(beams, 0, tokens.values, 8, count.values, &error));
    SETS(count, onedraw_beams_finish(beams, count.values, &error));
    PREPARE(hypothesis);
    FILLS(tokens, 1, onedraw_beams_text(beams, 0, hypothesis.values, tokens.values, 8, count.values, &error));
    WROTE(hypothesis, 1);
    OK(onedraw_beams_free(beams, &error));
    OK(onedraw_params_free(params, &error));
}

void test_guards(void) {
    of_samplers();
    of_batches();
    of_texts();
}
