/* Beam search, and beams that are drawn. */
#include "check.h"

#include <math.h>

enum { VOCABULARY = 3 };

static const float LOGITS[4][VOCABULARY] = {{0.5f, 0.0f, 1.0f}, {0.5f, 0.0f, 1.0f}, {0.5f, 0.0f, 1.0f}, {0.5f, 0.0f, 1.0f}};

static onedraw_beams *beams_of(const char *json, const char *settings) {
    onedraw_error error;
    onedraw_beams *beams;
    onedraw_params *params = params_of(json);
    OK(onedraw_beams_new(params, settings, &beams, &error));
    OK(onedraw_params_free(params, &error));
    return beams;
}

/* Counts how often it is asked, and forbids token 0. */
static onedraw_finish without_0(void *context, size_t beam, uint32_t token) {
    (void)beam;
    ++*(int *)context;
    return token == 0 ? ONEDRAW_FORBIDDEN : ONEDRAW_GOES_ON;
}

static onedraw_finish nonsense(void *context, size_t beam, uint32_t token) {
    (void)context, (void)beam, (void)token;
    return 77;
}

static void search(onedraw_beams *beams, onedraw_continuation continuation, void *context) {
    onedraw_error error;
    for (;;) {
        size_t count, branches;
        int32_t is_done;
        onedraw_branch branch[4];
        OK(onedraw_beams_count(beams, &count, &is_done, &error));
        if (is_done) return;
        onedraw_rows rows = {.logits = LOGITS, .count = count, .vocabulary = VOCABULARY};
        OK(onedraw_beams_step(beams, &rows, continuation, context, branch, COUNT(branch), &branches, &error));
        for (size_t i = 0; i < branches; i++) {
            uint32_t tokens[4];
            size_t length;
            OK(onedraw_beams_tokens(beams, i, tokens, COUNT(tokens), &length, &error));
            CHECK(branch[i].beam < count && tokens[length - 1] == branch[i].token);
        }
    }
}

void test_beams(void) {
    onedraw_error error;
    onedraw_hypothesis text;
    uint32_t tokens[4];
    size_t found, length;
    int asked = 0;
    onedraw_beams *beams = beams_of("{\"max_tokens\": 3, \"n\": 2, \"eos_token_id\": 2}", "{\"beams\": 2}");
    search(beams, NULL, NULL);
    OK(onedraw_beams_finish(beams, &found, &error));
    CHECK(found == 2);
    OK(onedraw_beams_text(beams, 0, &text, tokens, COUNT(tokens), &length, &error));
    CHECK(length == 1 && tokens[0] == 2 && text.length == 1 && text.finish == ONEDRAW_EOS && text.by == 2);
    CHECK(text.score == text.logprob && isnan(text.inclusion) && fabs(text.logprob + 0.6802) < 1e-3);
    FAILS(onedraw_beams_text(beams, 2, &text, tokens, COUNT(tokens), &length, &error), ONEDRAW_NOTHING, "nothing",
          "2 texts were found, and no number 2");
    FAILS(onedraw_beams_finish(beams, &found, &error), ONEDRAW_NOTHING, "nothing",
          "the search is over: it was finished, or a step of it failed");
    OK(onedraw_beams_free(beams, &error));

    beams = beams_of("{\"max_tokens\": 2, \"n\": 1}", "{\"beams\": 2, \"style\": \"gnmt\", \"length_penalty\": 0}");
    search(beams, without_0, &asked);
    OK(onedraw_beams_finish(beams, &found, &error));
    OK(onedraw_beams_text(beams, 0, &text, tokens, COUNT(tokens), &length, &error));
    CHECK(found == 1 && length == 2 && tokens[0] == 2 && tokens[1] == 2 && text.finish == ONEDRAW_LENGTH && asked > 4);
    OK(onedraw_beams_free(beams, &error));

    beams = beams_of("{\"max_tokens\": 2, \"seed\": 4, \"temperature\": 0.9}", "{\"beams\": 3, \"stochastic\": true}");
    search(beams, NULL, NULL);
    OK(onedraw_beams_finish(beams, &found, &error));
    CHECK(found == 3);
    for (size_t i = 0; i < found; i++) {
        OK(onedraw_beams_text(beams, i, &text, tokens, COUNT(tokens), &length, &error));
        CHECK(length == 2 && text.inclusion > 0.0 && text.inclusion <= 1.0);
    }
    OK(onedraw_beams_free(beams, &error));

    /* A step that fails ends the search. */
    beams = beams_of("{\"max_tokens\": 2}", NULL);
    onedraw_branch branches[4];
    onedraw_rows rows = {.logits = LOGITS, .count = 2, .vocabulary = VOCABULARY};
    FAILS(onedraw_beams_step(beams, &rows, NULL, NULL, branches, 4, &found, &error), ONEDRAW_BAD_ARGUMENT, "rows",
          "rows: there are 2 rows for 1 beams");
    rows.count = 1;
    FAILS(onedraw_beams_step(beams, &rows, NULL, NULL, branches, 3, &found, &error), ONEDRAW_TOO_SMALL, "branches",
          "branches: has room for 3, and 4 are needed");
    FAILS(onedraw_beams_step(beams, &rows, nonsense, NULL, branches, 4, &found, &error), ONEDRAW_BAD_ARGUMENT, "continuation",
          "continuation: said 77, which is no answer about a token");
    FAILS(onedraw_beams_step(beams, &rows, NULL, NULL, branches, 4, &found, &error), ONEDRAW_NOTHING, "nothing",
          "the search is over: it was finished, or a step of it failed");
    OK(onedraw_beams_free(beams, &error));

    onedraw_params *params = params_of("{}");
    FAILS(onedraw_beams_new(params, "{\"beams\": 0}", &beams, &error), ONEDRAW_BAD_PARAMETER, "beams",
          "beams: must be in [1, 4096], not 0");
    FAILS(onedraw_beams_new(params, "{\"beams\": 2, \"beam_groups\": 2, \"stochastic\": true}", &beams, &error), ONEDRAW_BAD_PARAMETER,
          "stochastic", "stochastic: takes no other setting than beams");
    CHECK(onedraw_beams_new(params, "{\"depth\": 2}", &beams, &error) == ONEDRAW_BAD_ARGUMENT && strcmp(error.kind, "settings") == 0);
    FAILS(onedraw_beams_new(params, "{\"beams\": 4, \"beam_groups\": 3}", &beams, &error), ONEDRAW_BAD_PARAMETER, "beam_groups",
          "beam_groups: must divide the beams (4), not 3");
    OK(onedraw_params_free(params, &error));
}
