/* Parameters: from JSON, by name, from presets and other systems. */
#include "check.h"

static void same(const onedraw_params *a, const onedraw_params *b) {
    static char texts[2][8192];
    onedraw_error error;
    size_t lengths[2];
    OK(onedraw_params_to_json(a, texts[0], sizeof texts[0], &lengths[0], &error));
    OK(onedraw_params_to_json(b, texts[1], sizeof texts[1], &lengths[1], &error));
    CHECK(lengths[0] == strlen(texts[0]) && strcmp(texts[0], texts[1]) == 0);
}

static void by_name(void) {
    onedraw_error error;
    onedraw_params *params;
    onedraw_params *expected = params_of(
        "{\"temperature\": 0.7, \"top_k\": 50, \"seed\": 18446744073709551615, \"ignore_eos\": true, \"stop\": [\"a\", \"\\u00e9\"],"
        " \"stop_token_ids\": [3, 1], \"logprobs_mode\": \"processed_logprobs\", \"logit_bias\": {\"5\": 1.5},"
        " \"order\": \"llama.cpp\"}");
    const uint32_t ids[] = {3, 1};
    const char *stop[] = {"a", "\xc3\xa9"};
    OK(onedraw_params_new(&params, &error));
    OK(onedraw_params_set_number(params, "temperature", 0.7, &error));
    OK(onedraw_params_set_integer(params, "top_k", 50, &error));
    OK(onedraw_params_set_seed(params, UINT64_MAX, &error));
    OK(onedraw_params_set_flag(params, "ignore_eos", 1, &error));
    OK(onedraw_params_set_texts(params, "stop", stop, 2, &error));
    OK(onedraw_params_set_ids(params, "stop_token_ids", ids, 2, &error));
    OK(onedraw_params_set_text(params, "logprobs_mode", "processed_logprobs", &error));
    OK(onedraw_params_set_json(params, "logit_bias", "{\"5\": 1.5}", &error));
    OK(onedraw_params_set_text(params, "order", "llama.cpp", &error));
    OK(onedraw_params_check(params, &error));
    same(params, expected);

    FAILS(onedraw_params_set_number(params, "tempreature", 1, &error), ONEDRAW_BAD_PARAMETER, "tempreature",
          "tempreature: unknown field `tempreature`; did you mean `temperature`?");
    FAILS(onedraw_params_set_number(params, "top_k", 2.5, &error), ONEDRAW_BAD_PARAMETER, "top_k",
          "top_k: invalid type: floating point `2.5`, expected a whole number");
    FAILS(onedraw_params_set_number(params, "top_p", 0.0 / 0.0, &error), ONEDRAW_BAD_PARAMETER, "top_p",
          "top_p: must be finite, not NaN");
    FAILS(onedraw_params_set_text(params, "top_p", "high", &error), ONEDRAW_BAD_PARAMETER, "top_p",
          "top_p: invalid type: string \"high\", expected a number");
    same(params, expected);
    /* A range is checked when something is made of them. */
    OK(onedraw_params_set_number(params, "top_p", 1.5, &error));
    FAILS(onedraw_params_check(params, &error), ONEDRAW_BAD_PARAMETER, "top_p", "top_p: must be in [0, 1], not 1.5");
    onedraw_sampler *sampler = (onedraw_sampler *)&params;
    FAILS(onedraw_sampler_new(params, &sampler, &error), ONEDRAW_BAD_PARAMETER, "top_p", "top_p: must be in [0, 1], not 1.5");
    CHECK(sampler == NULL);
    OK(onedraw_params_free(params, &error));
    OK(onedraw_params_free(expected, &error));
}

static void from_elsewhere(void) {
    onedraw_error error;
    onedraw_params *params, *expected;
    char notes[256];
    size_t length;
    OK(onedraw_params_preset("balanced", &params, &error));
    expected = params_of("{\"temperature\": 0.7, \"top_k\": 50, \"top_p\": 0.9}");
    same(params, expected);
    OK(onedraw_params_free(params, &error));
    OK(onedraw_params_free(expected, &error));
    FAILS(onedraw_params_preset("wild", &params, &error), ONEDRAW_BAD_PARAMETER, "preset",
          "preset: \"wild\" is not a preset; the presets are creative, precise, balanced, deterministic");
    CHECK(params == NULL);

    const char *settings = "{\"do_sample\": false, \"max_new_tokens\": 64, \"num_beams\": 4}";
    OK(onedraw_params_import(settings, NULL, &params, notes, sizeof notes, &length, &error));
    CHECK(length == strlen(notes));
    CHECK(strstr(notes, "changed: do_sample: false is greedy: temperature 0\nlost: num_beams: beam search is not set by sampling parameters") == notes);
    expected = params_of("{\"temperature\": 0, \"max_tokens\": 64, \"order\": \"huggingface\"}");
    same(params, expected);
    OK(onedraw_params_free(params, &error));
    OK(onedraw_params_free(expected, &error));
    size_t needed = length + 1;
    onedraw_params *none = (onedraw_params *)&error;
    CHECK(onedraw_params_import(settings, "huggingface", &none, notes, 10, &length, &error) == ONEDRAW_TOO_SMALL);
    CHECK(none == NULL && length == needed);
    FAILS(onedraw_params_import(settings, "gpt", &params, notes, sizeof notes, &length, &error), ONEDRAW_BAD_PARAMETER, "source",
          "source: `gpt` is not known; the sources are openai, vllm, llama.cpp, huggingface");
}

void test_params(void) {
    onedraw_error error;
    onedraw_params *params;
    by_name();
    from_elsewhere();
    FAILS(onedraw_params_from_json("{\"seed\": 1, \"seed\": 2}", &params, &error), ONEDRAW_BAD_PARAMETER, "params",
          "params: cannot be read as JSON: the key `seed` stands twice at line 1 column 22");
    /* A message that is too long is cut after a whole character. */
    char name[1024];
    strcpy(name, "x");
    for (int i = 0; i < 250; i++) strcat(name, "\xc3\xa9");
    char json[2048];
    sprintf(json, "{\"temperature\": \"%s\"}", name);
    CHECK(onedraw_params_from_json(json, &params, &error) == ONEDRAW_BAD_PARAMETER);
    CHECK(error.length > ONEDRAW_MESSAGE_SIZE && strlen(error.message) >= ONEDRAW_MESSAGE_SIZE - 3);
    CHECK((unsigned char)error.message[strlen(error.message) - 1] == 0xa9);

    /* A name with a zero in it. */
    FAILS(onedraw_params_from_json("{\"a\\u0000b\": 1}", &params, &error), ONEDRAW_BAD_PARAMETER, "a\\u{0}b",
          "a\\u{0}b: unknown field `a\\u{0}b`; no parameter has a similar name");
}
