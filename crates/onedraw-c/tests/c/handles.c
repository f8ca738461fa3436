/* Handles that are NULL, freed, freed twice, of another kind, made up, or in use. */
#include "check.h"

static onedraw_finish ask_again(void *context, size_t beam, uint32_t token) {
    onedraw_error error;
    size_t count;
    int32_t is_done;
    (void)beam, (void)token;
    FAILS(onedraw_beams_count(*(onedraw_beams **)context, &count, &is_done, &error), ONEDRAW_IN_USE, "beams",
          "beams: in use by another call");
    return ONEDRAW_GOES_ON;
}

static void in_use(void) {
    onedraw_error error;
    onedraw_beams *beams;
    onedraw_branch branches[4];
    size_t count;
    const float logits[] = {0.0f, 1.0f, 2.0f, 3.0f};
    onedraw_rows rows = {.logits = logits, .count = 1, .vocabulary = 4};
    onedraw_params *params = params_of("{}");
    OK(onedraw_beams_new(params, NULL, &beams, &error));
    OK(onedraw_params_free(params, &error));
    OK(onedraw_beams_step(beams, &rows, ask_again, &beams, branches, 4, &count, &error));
    CHECK(count == 4);
    OK(onedraw_beams_free(beams, &error));
}

/* Every function of a kind of handle refuses one that is not of it. */
static void refused(void *handle, onedraw_params *params) {
    static char text[16];
    static const float logits[4];
    onedraw_row row = {.logits = logits, .vocabulary = 4};
    onedraw_rows rows = {.logits = logits, .count = 1, .vocabulary = 4};
    onedraw_draft draft = {0};
    onedraw_sampled sampled[2] = {{0}};
    onedraw_kept kept;
    onedraw_progress progress;
    onedraw_hypothesis hypothesis;
    onedraw_branch branch;
    onedraw_runner runner;
    onedraw_probability probability;
    onedraw_token_logprob logprob;
    onedraw_error error, of_row;
    onedraw_sequence sequence = 0;
    uint64_t seed;
    uint32_t token;
    int32_t flag;
    size_t count, path[2];
    void *other;
#define REFUSES(of_kind, call)                                                          \
    do {                                                                                \
        CHECK((call) == ONEDRAW_BAD_HANDLE);                                            \
        CHECK(error.status == ONEDRAW_BAD_HANDLE && strcmp(error.kind, (of_kind)) == 0); \
    } while (0)
    REFUSES("sampler", onedraw_sampler_clone(handle, (onedraw_sampler **)&other, &error));
    CHECK(other == NULL);
    REFUSES("sampler", onedraw_sampler_sample(handle, &row, sampled, &error));
    REFUSES("sampler", onedraw_sampler_peek(handle, &row, 0, sampled, &error));
    REFUSES("sampler", onedraw_sampler_sample_uniform(handle, &row, 0.0, sampled, &error));
    REFUSES("sampler", onedraw_sampler_logprobs(handle, 0, &logprob, 1, &count, &error));
    REFUSES("sampler", onedraw_sampler_kept(handle, 0, &kept, &token, 1, &count, &error));
    REFUSES("sampler", onedraw_sampler_distribution(handle, &row, &probability, 1, &count, &error));
    REFUSES("sampler", onedraw_sampler_explain(handle, &row, 1, &count, &error));
    REFUSES("sampler", onedraw_sampler_prompt_logprobs(handle, &rows, &count, &error));
    REFUSES("sampler", onedraw_sampler_json(handle, text, sizeof text, &count, &error));
    REFUSES("sampler", onedraw_sampler_accept(handle, 0, &error));
    REFUSES("sampler", onedraw_sampler_accept_sampled(handle, sampled, &error));
    REFUSES("sampler", onedraw_sampler_rewind(handle, 0, &error));
    REFUSES("sampler", onedraw_sampler_take_back(handle, 0, 0, &error));
    REFUSES("sampler", onedraw_sampler_output(handle, &token, 1, &count, &error));
    REFUSES("sampler", onedraw_sampler_seed(handle, &seed, &error));
    REFUSES("sampler", onedraw_sampler_save(handle, text, sizeof text, &count, &error));
    REFUSES("sampler", onedraw_sampler_set_prompt(handle, &token, 0, &error));
    REFUSES("sampler", onedraw_sampler_reset(handle, &error));
    REFUSES("sampler", onedraw_sampler_verify(handle, &draft, &rows, NULL, sampled, path, 2, &count, &error));
    REFUSES("batch", onedraw_batch_set_prompt(handle, 0, &token, 0, &error));
    REFUSES("batch", onedraw_batch_reset(handle, 0, &error));
    REFUSES("batch", onedraw_batch_add(handle, params, &sequence, &error));
    REFUSES("batch", onedraw_batch_add_all(handle, params, &sequence, 1, &count, &error));
    REFUSES("batch", onedraw_batch_fork(handle, 0, &sequence, &error));
    REFUSES("batch", onedraw_batch_remove(handle, 0, &error));
    REFUSES("batch", onedraw_batch_count(handle, &count, &error));
    REFUSES("batch", onedraw_batch_sample(handle, &sequence, &rows, sampled, &error));
    REFUSES("batch", onedraw_batch_peek(handle, &sequence, &rows, 0, sampled, &error));
    REFUSES("batch", onedraw_batch_row_error(handle, 0, &of_row, &error));
    REFUSES("batch", onedraw_batch_logprobs(handle, 0, &logprob, 1, &count, &error));
    REFUSES("batch", onedraw_batch_kept(handle, 0, &kept, &token, 1, &count, &error));
    REFUSES("batch", onedraw_batch_distribution(handle, 0, &row, &probability, 1, &count, &error));
    REFUSES("batch", onedraw_batch_explain(handle, 0, &row, 1, &count, &error));
    REFUSES("batch", onedraw_batch_json(handle, text, sizeof text, &count, &error));
    REFUSES("batch", onedraw_batch_runners(handle, 0, &row, &runner, 1, &count, &error));
    REFUSES("batch", onedraw_batch_accept(handle, 0, 0, &error));
    REFUSES("batch", onedraw_batch_accept_sampled(handle, 0, sampled, &error));
    REFUSES("batch", onedraw_batch_rewind(handle, 0, 0, &error));
    REFUSES("batch", onedraw_batch_take_back(handle, 0, 0, 0, &error));
    REFUSES("batch", onedraw_batch_output(handle, 0, &token, 1, &count, &error));
    REFUSES("batch", onedraw_batch_seed(handle, 0, &seed, &error));
    REFUSES("batch", onedraw_batch_save(handle, 0, text, sizeof text, &count, &error));
    REFUSES("batch", onedraw_batch_verify(handle, 0, &draft, &rows, NULL, sampled, path, 2, &count, &error));
    REFUSES("stop", onedraw_stop_clone(handle, (onedraw_stop **)&other, &error));
    REFUSES("stop", onedraw_stop_push(handle, 0, NULL, 0, &progress, &error));
    REFUSES("stop", onedraw_stop_finish(handle, &count, &error));
    REFUSES("stop", onedraw_stop_text(handle, NULL, 0, &count, &error));
    REFUSES("stop", onedraw_stop_held_back(handle, NULL, 0, &count, &error));
    REFUSES("vocabulary", onedraw_grammar_new(handle, "regex", "a", (onedraw_grammar **)&other, &error));
    REFUSES("grammar", onedraw_matcher_new(handle, (onedraw_matcher **)&other, &error));
    REFUSES("matcher", onedraw_matcher_clone(handle, (onedraw_matcher **)&other, &error));
    REFUSES("matcher", onedraw_matcher_mask(handle, &token, 1, &count, &error));
    REFUSES("matcher", onedraw_matcher_forced(handle, &token, 1, &count, &error));
    REFUSES("matcher", onedraw_matcher_accept(handle, 0, &error));
    REFUSES("matcher", onedraw_matcher_rollback(handle, 0, &error));
    REFUSES("matcher", onedraw_matcher_may_end(handle, &flag, &error));
    REFUSES("beams", onedraw_beams_count(handle, &count, &flag, &error));
    REFUSES("beams", onedraw_beams_tokens(handle, 0, &token, 1, &count, &error));
    REFUSES("beams", onedraw_beams_step(handle, &rows, NULL, NULL, &branch, 1, &count, &error));
    REFUSES("beams", onedraw_beams_finish(handle, &count, &error));
    REFUSES("beams", onedraw_beams_text(handle, 0, &hypothesis, &token, 1, &count, &error));
    if (handle == NULL) return;
    REFUSES("sampler", onedraw_sampler_free(handle, &error));
    REFUSES("batch", onedraw_batch_free(handle, &error));
    REFUSES("stop", onedraw_stop_free(handle, &error));
    REFUSES("vocabulary", onedraw_vocabulary_free(handle, &error));
    REFUSES("grammar", onedraw_grammar_free(handle, &error));
    REFUSES("matcher", onedraw_matcher_free(handle, &error));
    REFUSES("beams", onedraw_beams_free(handle, &error));
}

static void refused_params(void *handle) {
    static char text[16];
    onedraw_error error;
    onedraw_sampler *sampler;
    onedraw_stop *stop;
    onedraw_beams *beams;
    const char *texts[] = {"a"};
    const uint32_t ids[] = {1};
    size_t length;
    REFUSES("params", onedraw_params_set_number(handle, "top_p", 1, &error));
    REFUSES("params", onedraw_params_set_integer(handle, "top_k", 1, &error));
    REFUSES("params", onedraw_params_set_seed(handle, 1, &error));
    REFUSES("params", onedraw_params_set_flag(handle, "ignore_eos", 1, &error));
    REFUSES("params", onedraw_params_set_ids(handle, "stop_token_ids", ids, 1, &error));
    REFUSES("params", onedraw_params_set_text(handle, "order", "vllm", &error));
    REFUSES("params", onedraw_params_set_texts(handle, "stop", texts, 1, &error));
    REFUSES("params", onedraw_params_set_json(handle, "top_p", "1", &error));
    REFUSES("params", onedraw_params_check(handle, &error));
    REFUSES("params", onedraw_params_to_json(handle, text, sizeof text, &length, &error));
    REFUSES("params", onedraw_sampler_new(handle, &sampler, &error));
    REFUSES("params", onedraw_sampler_new_sequence(handle, 0, &sampler, &error));
    REFUSES("params", onedraw_stop_new(handle, &stop, &error));
    REFUSES("params", onedraw_beams_new(handle, NULL, &beams, &error));
    if (handle != NULL) REFUSES("params", onedraw_params_free(handle, &error));
}

/* Handles that are made and freed without end: none comes twice. */
static void many(void) {
    enum { EACH = 70000, AT_ONCE = 100 };
    onedraw_error error;
    onedraw_params *all[AT_ONCE], *last = NULL, *first = params_of("{}");
    OK(onedraw_params_free(first, &error));
    for (int i = 0; i < AT_ONCE; i++) OK(onedraw_params_new(&all[i], &error));
    for (int i = 0; i < AT_ONCE; i++)
        for (int j = 0; j < i; j++) CHECK(all[i] != all[j]);
    for (int i = 0; i < AT_ONCE; i++) OK(onedraw_params_free(all[i], &error));
    for (int i = 0; i < EACH; i++) {
        onedraw_params *params;
        OK(onedraw_params_new(&params, &error));
        CHECK(params != first && params != last);
        CHECK(i == 0 || onedraw_params_check(last, NULL) == ONEDRAW_BAD_HANDLE);
        OK(onedraw_params_free(params, &error));
        last = params;
    }
    CHECK(onedraw_params_check(first, NULL) == ONEDRAW_BAD_HANDLE);
}

void test_handles(void) {
    onedraw_error error;
    int on_the_stack = 0;
    onedraw_params *params = params_of("{}");
    onedraw_params *gone = params_of("{}");
    onedraw_sampler *sampler = sampler_of("{}");
    OK(onedraw_params_free(gone, &error));
    FAILS(onedraw_params_free(gone, &error), ONEDRAW_BAD_HANDLE, "params", "params: the handle is of another kind, or was freed");
    /* Another value is where it was. It has another handle. */
    onedraw_params *next = params_of("{}");
    CHECK(next != gone && onedraw_params_free(gone, NULL) == ONEDRAW_BAD_HANDLE);
    /* Numbers that no garbage collector takes for a pointer of its own, nor a language for a value of its own. */
    uintptr_t bits = (uintptr_t)params;
    CHECK(bits >> 46 == 1 && bits % 16 == 0);
    void *bad[] = {
        NULL, gone, params, &on_the_stack, (void *)UINTPTR_MAX, (void *)(uintptr_t)1000, (void *)(bits + 1),
        (void *)(bits ^ (uintptr_t)1 << 46), (void *)(bits | (uintptr_t)1 << 47), (void *)(bits | (uintptr_t)1 << 45),
    };
    for (size_t i = 0; i < COUNT(bad); i++) refused(bad[i], params);
    bad[2] = sampler;
    for (size_t i = 0; i < COUNT(bad); i++) refused_params(bad[i]);
    OK(onedraw_params_free(next, &error));
    OK(onedraw_params_free(params, &error));
    OK(onedraw_sampler_free(sampler, &error));
    OK(onedraw_params_free(NULL, &error));
    OK(onedraw_sampler_free(NULL, &error));
    OK(onedraw_batch_free(NULL, &error));
    OK(onedraw_stop_free(NULL, &error));
    OK(onedraw_vocabulary_free(NULL, &error));
    OK(onedraw_grammar_free(NULL, &error));
    OK(onedraw_matcher_free(NULL, &error));
    OK(onedraw_beams_free(NULL, &error));
    in_use();
    many();
}
