/* Tests of onedraw.h. */
#include "check.h"

onedraw_params *params_of(const char *json) {
    onedraw_error error;
    onedraw_params *params;
    OK(onedraw_params_from_json(json, &params, &error));
    return params;
}

onedraw_sampler *sampler_of(const char *json) {
    onedraw_error error;
    onedraw_params *params = params_of(json);
    onedraw_sampler *sampler;
    OK(onedraw_sampler_new(params, &sampler, &error));
    OK(onedraw_params_free(params, &error));
    return sampler;
}

int main(void) {
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {
        {"golden draws", test_golden}, {"parameters", test_params}, {"records", test_records},
        {"samplers", test_samplers},   {"batches", test_batches},   {"texts", test_texts},
        {"grammars", test_grammars},   {"beams", test_beams},       {"handles", test_handles},
        {"arguments", test_arguments}, {"guards", test_guards},     {"threads", test_threads},
    };
    CHECK(strcmp(onedraw_version(), ONEDRAW_VERSION) == 0);
    CHECK(onedraw_stream_version() == 1);
    CHECK(onedraw_abi() == ONEDRAW_ABI && ONEDRAW_ABI == 1);
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    for (size_t i = 0; i < COUNT(tests); i++) {
        tests[i].run();
        printf("ok  %s\n", tests[i].name);
    }
    return 0;
}
