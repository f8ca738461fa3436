/* Threads: each with its own handles, and all with one. */
#include "check.h"

#include <pthread.h>
#include <sched.h>

enum { THREADS = 4, DRAWS = 200, VOCABULARY = 4099 };

static float logits[VOCABULARY];
static const onedraw_row ROW = {.logits = logits, .vocabulary = VOCABULARY};
static onedraw_params *shared_params;
static onedraw_sampler *shared_sampler;

/* A sampler of its own, of parameters that all threads read. */
static void *own(void *drawn) {
    onedraw_error error;
    onedraw_sampled sampled;
    for (int round = 0; round < 10; round++) {
        onedraw_sampler *sampler;
        OK(onedraw_sampler_new(shared_params, &sampler, &error));
        for (int i = 0; i < DRAWS / 10; i++) {
            OK(onedraw_sampler_sample(sampler, &ROW, &sampled, &error));
            ((uint32_t *)drawn)[i] = sampled.token;
        }
        OK(onedraw_sampler_free(sampler, &error));
    }
    return NULL;
}

/* The same sampler as the others: one draws at a time, and the others are told, and try again. */
static void *together(void *unused) {
    onedraw_error error;
    onedraw_sampled sampled;
    (void)unused;
    for (int drawn = 0; drawn < DRAWS;) {
        onedraw_status status = onedraw_sampler_sample(shared_sampler, &ROW, &sampled, &error);
        CHECK(status == ONEDRAW_OK || status == ONEDRAW_IN_USE);
        if (status == ONEDRAW_OK) drawn++;
        else sched_yield();
    }
    return NULL;
}

/* Draws until another thread has freed the sampler. */
static void *until_freed(void *unused) {
    onedraw_sampled sampled;
    onedraw_status status;
    (void)unused;
    do {
        status = onedraw_sampler_sample(shared_sampler, &ROW, &sampled, NULL);
        CHECK(status == ONEDRAW_OK || status == ONEDRAW_IN_USE || status == ONEDRAW_BAD_HANDLE);
    } while (status != ONEDRAW_BAD_HANDLE);
    return NULL;
}

void test_threads(void) {
    onedraw_error error;
    pthread_t threads[THREADS];
    uint32_t drawn[THREADS][DRAWS / 10];
    size_t written;
    golden_row("wide", NULL, 3, logits, VOCABULARY);
    shared_params = params_of("{\"seed\": 9, \"temperature\": 1.4, \"top_p\": 0.95, \"repetition_penalty\": 1.1}");
    for (size_t i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, own, drawn[i]) == 0);
    for (size_t i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    for (size_t i = 1; i < THREADS; i++) CHECK(memcmp(drawn[0], drawn[i], sizeof drawn[0]) == 0);

    OK(onedraw_sampler_new(shared_params, &shared_sampler, &error));
    for (size_t i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, together, NULL) == 0);
    for (size_t i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    uint32_t output[THREADS * DRAWS];
    OK(onedraw_sampler_output(shared_sampler, output, COUNT(output), &written, &error));
    CHECK(written == THREADS * DRAWS);
    CHECK(memcmp(output, drawn[0], sizeof drawn[0]) == 0);

    for (size_t i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, until_freed, NULL) == 0);
    OK(onedraw_sampler_free(shared_sampler, &error));
    for (size_t i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    OK(onedraw_params_free(shared_params, &error));
}
