/* Draws from one row again and again, and prints the nanoseconds of a draw: call_cost PARAMS VOCABULARY DRAWS */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "onedraw.h"

/* The row of call_cost.rs. */
static void fill(float *logits, size_t vocabulary) {
    uint32_t state = 1;
    for (size_t i = 0; i < vocabulary; i++) {
        state = state * 1664525u + 1013904223u;
        uint32_t high = state >> 8;
        logits[i] = ((float)high - 8388608.0f) / 2097152.0f + (high % 4096 == 0 ? 24.0f : 0.0f);
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

int main(int count, char **arguments) {
    if (count != 4) return 2;
    size_t vocabulary = strtoull(arguments[2], NULL, 10);
    long draws = strtol(arguments[3], NULL, 10);
    float *logits = aligned_alloc(64, (vocabulary * sizeof *logits + 63) / 64 * 64);
    onedraw_params *params;
    onedraw_sampler *sampler;
    onedraw_sampled sampled;
    onedraw_error error;
    if (!logits || onedraw_params_from_json(arguments[1], &params, &error) || onedraw_sampler_new(params, &sampler, &error)) return 1;
    fill(logits, vocabulary);
    const onedraw_row row = {.logits = logits, .vocabulary = vocabulary};
    uint64_t sum = 0;
    double least = 1e300;
    for (int round = 0; round < 1000; round++) {
        double began = now();
        for (long draw = 0; draw < draws; draw++) {
            if (onedraw_sampler_sample(sampler, &row, &sampled, &error)) return 1;
            sum += sampled.token;
        }
        double each = (now() - began) / (double)draws;
        least = each < least ? each : least;
        onedraw_sampler_rewind(sampler, 0, NULL);
    }
    printf("%f %llu\n", least, (unsigned long long)sum);
    return 0;
}
