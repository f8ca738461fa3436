/* The golden vectors, which the library, the program and the Python package are held to as well. */
#include "check.h"

#include <math.h>

struct golden_draws {
    const char *shape;
    size_t vocabulary;
    uint32_t seed;
    float list[6];
    uint32_t begun;
    const char *params;
    uint32_t tokens[16];
    uint32_t uniform[8];
    size_t kept;
    uint64_t bits;
};

struct golden_verdict {
    const char *params;
    size_t count;
    uint32_t guesses[20];
    int32_t parents[20];
    size_t accepted;
    size_t path[6];
    uint32_t tokens[7];
};

#include "golden.inc"

/* Philox4x32-10, written after its paper and not after ours. */
static void philox(uint32_t key, uint32_t counter, uint32_t words[4]) {
    uint32_t c[4] = {counter, 0, 0, 0};
    uint32_t k[2] = {key, 0};
    for (int round = 0; round < 10; round++) {
        uint64_t a = UINT64_C(0xD2511F53) * c[0], b = UINT64_C(0xCD9E8D57) * c[2];
        uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k[0], (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ k[1], (uint32_t)a};
        memcpy(c, next, sizeof c);
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
    memcpy(words, c, sizeof c);
}

void golden_row(const char *shape, const float *list, uint32_t seed, float *logits, size_t vocabulary) {
    uint32_t words[4] = {0};
    for (uint32_t i = 0; i < vocabulary; i++) {
        if (i % 4 == 0) philox(seed, i / 4, words);
        uint32_t high = words[i % 4] >> 8;
        float centred = (float)high - 8388608.0f;
        if (strcmp(shape, "list") == 0) logits[i] = list[i];
        else if (strcmp(shape, "wide") == 0) logits[i] = centred / 524288.0f;
        else if (strcmp(shape, "flat") == 0) logits[i] = centred / 1073741824.0f;
        else if (strcmp(shape, "peaked") == 0) logits[i] = centred / 2097152.0f + (high % 4096 == 0 ? 24.0f : 0.0f);
        else if (strcmp(shape, "ties") == 0) logits[i] = (float)(high % 8) * 0.5f;
        else if (strcmp(shape, "holes") == 0) logits[i] = high % 3 == 0 ? -INFINITY : centred / 524288.0f;
        else CHECK(!"a shape that is defined");
    }
}

static void draws_of(const struct golden_draws *golden, onedraw_row row, onedraw_probability *distribution) {
    onedraw_error error;
    onedraw_sampled sampled;
    size_t count;
    onedraw_sampler *sampler = sampler_of(golden->params);
    for (uint32_t ahead = 0; ahead < 16; ahead++) {
        OK(onedraw_sampler_peek(sampler, &row, ahead, &sampled, &error));
        CHECK(sampled.token == golden->tokens[ahead] && sampled.position == golden->begun + ahead);
    }
    for (uint32_t eighth = 0; eighth < 8; eighth++) {
        OK(onedraw_sampler_sample_uniform(sampler, &row, eighth / 8.0, &sampled, &error));
        CHECK(sampled.token == golden->uniform[eighth]);
        OK(onedraw_sampler_rewind(sampler, golden->begun, &error));
    }
    OK(onedraw_sampler_distribution(sampler, &row, distribution, row.vocabulary, &count, &error));
    uint64_t bits;
    memcpy(&bits, &distribution[0].logprob, sizeof bits);
    CHECK(count == golden->kept && bits == golden->bits);
    OK(onedraw_sampler_sample(sampler, &row, &sampled, &error));
    CHECK(sampled.token == golden->tokens[0]);
    OK(onedraw_sampler_free(sampler, &error));
}

/* The 27 cases of one shape in one batch, whose rows have 3 logits between them. */
static void batch_of(const char *shape, size_t threads) {
    enum { CASES = 27, GAP = 3 };
    onedraw_error error;
    onedraw_batch *batch;
    onedraw_sequence sequences[CASES];
    uint32_t expected[CASES];
    onedraw_sampled sampled[CASES];
    size_t found = 0, vocabulary = 0;
    float *logits = NULL;
    OK(onedraw_batch_new(threads, &batch, &error));
    for (size_t i = 0; i < COUNT(draws); i++) {
        if (strcmp(draws[i].shape, shape) != 0) continue;
        CHECK(found < CASES);
        vocabulary = draws[i].vocabulary;
        if (!logits) logits = malloc((CASES * (vocabulary + GAP) - GAP) * sizeof *logits);
        CHECK(logits);
        golden_row(shape, NULL, draws[i].seed, logits + found * (vocabulary + GAP), vocabulary);
        if (found > 0) for (size_t gap = 1; gap <= GAP; gap++) logits[found * (vocabulary + GAP) - gap] = NAN;
        onedraw_params *params = params_of(draws[i].params);
        OK(onedraw_batch_add(batch, params, &sequences[found], &error));
        OK(onedraw_params_free(params, &error));
        expected[found++] = draws[i].tokens[0];
    }
    CHECK(found == CASES);
    onedraw_rows rows = {.logits = logits, .count = CASES, .vocabulary = vocabulary, .stride = vocabulary + GAP};
    OK(onedraw_batch_sample(batch, sequences, &rows, sampled, &error));
    for (size_t i = 0; i < CASES; i++) CHECK(sampled[i].status == ONEDRAW_OK && sampled[i].token == expected[i]);
    OK(onedraw_batch_free(batch, &error));
    free(logits);
}

/* The logits after a text and a path of guesses. */
static void row_after(const struct golden_verdict *golden, int32_t node, float *logits, size_t vocabulary) {
    int32_t path[20];
    size_t length = 0;
    for (; node >= 0; node = golden->parents[node]) path[length++] = node;
    uint32_t seed = 1;
    while (length > 0) seed = 31 * seed + golden->guesses[path[--length]] + 1;
    golden_row("wide", NULL, seed, logits, vocabulary);
}

static void verdict_of(const struct golden_verdict *golden) {
    enum { VOCABULARY = 300 };
    static float logits[21 * VOCABULARY];
    onedraw_error error;
    onedraw_batch *batch;
    onedraw_sequence sequence;
    onedraw_sampled sampled[21];
    size_t path[21], drawn;
    const void *pointers[21];
    for (int32_t node = -1; node < (int32_t)golden->count; node++)
        row_after(golden, node, logits + (size_t)(node + 1) * VOCABULARY, VOCABULARY);
    OK(onedraw_batch_new(1, &batch, &error));
    onedraw_params *params = params_of(golden->params);
    OK(onedraw_batch_add(batch, params, &sequence, &error));
    OK(onedraw_params_free(params, &error));
    onedraw_draft draft = {golden->guesses, golden->parents, golden->count};
    onedraw_rows rows = {.logits = logits, .count = golden->count + 1, .vocabulary = VOCABULARY};
    OK(onedraw_batch_verify(batch, sequence, &draft, &rows, NULL, sampled, path, COUNT(path), &drawn, &error));
    CHECK(drawn == golden->accepted + 1);
    for (size_t i = 0; i < drawn; i++) CHECK(sampled[i].token == golden->tokens[i]);
    for (size_t i = 0; i < golden->accepted; i++) CHECK(path[i] == golden->path[i]);
    OK(onedraw_batch_free(batch, &error));

    /* The same for a sampler, and with rows that are anywhere. */
    for (size_t i = 0; i < rows.count; i++) pointers[i] = logits + i * VOCABULARY;
    rows = (onedraw_rows){.pointers = pointers, .count = rows.count, .vocabulary = VOCABULARY};
    onedraw_sampler *sampler = sampler_of(golden->params);
    uint32_t output[1];
    size_t before, after;
    CHECK(onedraw_sampler_output(sampler, output, 0, &before, NULL) != ONEDRAW_BAD_HANDLE);
    OK(onedraw_sampler_verify(sampler, &draft, &rows, NULL, sampled, path, COUNT(path), &drawn, &error));
    CHECK(drawn == golden->accepted + 1);
    for (size_t i = 0; i < drawn; i++) CHECK(sampled[i].token == golden->tokens[i]);
    for (size_t i = 0; i < golden->accepted; i++) CHECK(path[i] == golden->path[i]);
    CHECK(onedraw_sampler_output(sampler, output, 0, &after, NULL) != ONEDRAW_BAD_HANDLE && after == before);
    OK(onedraw_sampler_free(sampler, &error));
}

void test_golden(void) {
    enum { LARGEST = 262144 };
    /* Where draws take a hundred times as long, longer rows can be left out. */
    const char *limit = getenv("LARGEST_ROW");
    size_t largest = limit ? strtoull(limit, NULL, 10) : LARGEST;
    CHECK(COUNT(draws) == 216 && COUNT(verdicts) == 18);
    float *logits = malloc(LARGEST * sizeof *logits);
    uint16_t *halves = malloc(LARGEST * sizeof *halves);
    onedraw_probability *distribution = malloc(LARGEST * sizeof *distribution);
    CHECK(logits && halves && distribution);
    /* 0, 0.5, ... 3.5 in half precision. */
    static const uint16_t steps[] = {0, 0x3800, 0x3c00, 0x3e00, 0x4000, 0x4100, 0x4200, 0x4300};
    for (size_t i = 0; i < COUNT(draws); i++) {
        const struct golden_draws *golden = &draws[i];
        if (golden->vocabulary > largest) continue;
        golden_row(golden->shape, golden->list, golden->seed, logits, golden->vocabulary);
        draws_of(golden, (onedraw_row){.logits = logits, .vocabulary = golden->vocabulary}, distribution);
        if (strcmp(golden->shape, "ties") != 0) continue;
        onedraw_row row = {.logits = halves, .vocabulary = golden->vocabulary, .dtype = ONEDRAW_F16};
        for (size_t token = 0; token < golden->vocabulary; token++) halves[token] = steps[(size_t)(2 * logits[token])];
        draws_of(golden, row, distribution);
        row.dtype = ONEDRAW_BF16;
        for (size_t token = 0; token < golden->vocabulary; token++) {
            uint32_t bits;
            memcpy(&bits, &logits[token], sizeof bits);
            halves[token] = (uint16_t)(bits >> 16);
        }
        draws_of(golden, row, distribution);
    }
    batch_of("holes", 1);
    batch_of("holes", 2);
    batch_of("wide", 1);
    for (size_t i = 0; i < COUNT(verdicts); i++) verdict_of(&verdicts[i]);
    free(logits);
    free(halves);
    free(distribution);
}
