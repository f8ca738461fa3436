/* Threads that draw with a sampler each, in one process: the nanoseconds of a core that a draw takes, by the number of
   threads. Threads that share memory wait for it on their core, so that is counted; what other programs do is not.

   cc -O2 crates/onedraw-c/benches/threads.c -Icrates/onedraw-c/include -Ltarget/release -lonedraw -lpthread \
      -Wl,-rpath,target/release -o threads
   ./threads VOCABULARY DRAWS THREADS... */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "onedraw.h"

enum { MOST = 256, TURNS = 5 };

static size_t vocabulary;
static long draws;
static float *logits;
static onedraw_params *params;
static pthread_barrier_t begin;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* Draws, and writes how long it took. */
static void *draw(void *time) {
    onedraw_sampler *sampler;
    onedraw_sampled sampled;
    const onedraw_row row = {.logits = logits, .vocabulary = vocabulary};
    if (onedraw_sampler_new(params, &sampler, NULL)) exit(1);
    if (onedraw_sampler_peek(sampler, &row, 0, &sampled, NULL)) exit(1);
    pthread_barrier_wait(&begin);
    double began = now();
    for (long i = 0; i < draws; i++)
        if (onedraw_sampler_peek(sampler, &row, (uint32_t)i, &sampled, NULL)) exit(1);
    *(double *)time = now() - began;
    onedraw_sampler_free(sampler, NULL);
    return NULL;
}

int main(int count, char **arguments) {
    if (count < 4) return 2;
    vocabulary = strtoull(arguments[1], NULL, 10);
    draws = strtol(arguments[2], NULL, 10);
    logits = malloc(vocabulary * sizeof *logits);
    if (!logits || onedraw_params_from_json("{\"temperature\": 0}", &params, NULL)) return 1;
    for (size_t i = 0; i < vocabulary; i++) logits[i] = (float)(i * 7919 % 1000) / 100.0f;
    for (int argument = 3; argument < count; argument++) {
        unsigned threads = (unsigned)strtoul(arguments[argument], NULL, 10);
        double least = 1e300;
        if (threads == 0 || threads > MOST) return 2;
        for (int turn = 0; turn < TURNS; turn++) {
            pthread_t all[MOST];
            double times[MOST], sum = 0;
            pthread_barrier_init(&begin, NULL, threads);
            for (unsigned i = 0; i < threads; i++)
                if (pthread_create(&all[i], NULL, draw, &times[i])) return 1;
            for (unsigned i = 0; i < threads; i++) pthread_join(all[i], NULL);
            pthread_barrier_destroy(&begin);
            for (unsigned i = 0; i < threads; i++) sum += times[i];
            double each = sum / ((double)draws * threads);
            least = each < least ? each : least;
        }
        printf("%3u threads: %8.1f ns per draw\n", threads, least);
    }
    return 0;
}
