/* Where texts end, and what is taken back. */
#include "check.h"

static onedraw_stop *stop_of(const char *json) {
    onedraw_error error;
    onedraw_stop *stop;
    onedraw_params *params = params_of(json);
    OK(onedraw_stop_new(params, &stop, &error));
    OK(onedraw_params_free(params, &error));
    return stop;
}

/* Pushes a token and checks what is shown. */
static onedraw_progress push(onedraw_stop *stop, uint32_t token, const char *bytes, const char *shown) {
    onedraw_error error;
    onedraw_progress progress;
    char text[64] = {0};
    size_t length;
    OK(onedraw_stop_push(stop, token, (const uint8_t *)bytes, strlen(bytes), &progress, &error));
    OK(onedraw_stop_text(stop, (uint8_t *)text, sizeof text, &length, &error));
    CHECK(length == progress.shown && length == strlen(shown) && strcmp(text, shown) == 0);
    return progress;
}

void test_texts(void) {
    onedraw_error error;
    uint8_t bytes[16];
    size_t length;
    onedraw_stop *clone, *stop = stop_of("{\"stop\": [\"\\nUser:\"], \"eos_token_id\": 2, \"max_tokens\": 5}");
    CHECK(push(stop, 17, "Hello.\nUs", "Hello.").finish == ONEDRAW_GOES_ON);
    OK(onedraw_stop_held_back(stop, bytes, sizeof bytes, &length, &error));
    CHECK(length == 3 && memcmp(bytes, "\nUs", 3) == 0);
    OK(onedraw_stop_clone(stop, &clone, &error));
    CHECK(push(stop, 18, "e ", "\nUse ").finish == ONEDRAW_GOES_ON);
    CHECK(push(stop, 19, "it.\n", "it.").finish == ONEDRAW_GOES_ON);
    onedraw_progress last = push(stop, 20, "User: yes", "");
    CHECK(last.finish == ONEDRAW_STOP_STRING && last.by == 0 && last.rewinds == 0);
    OK(onedraw_stop_free(stop, &error));

    OK(onedraw_stop_finish(clone, &length, &error));
    CHECK(length == 3);
    FAILS(onedraw_stop_text(clone, bytes, 2, &length, &error), ONEDRAW_TOO_SMALL, "bytes", "bytes: has room for 2, and 3 are needed");
    OK(onedraw_stop_text(clone, bytes, 3, &length, &error));
    CHECK(length == 3 && memcmp(bytes, "\nUs", 3) == 0);
    OK(onedraw_stop_free(clone, &error));

    stop = stop_of("{\"eos_token_id\": [2, 7], \"stop_token_ids\": [9], \"max_tokens\": 2}");
    OK(onedraw_stop_clone(stop, &clone, &error));
    last = push(clone, 7, "</s>", "");
    CHECK(last.finish == ONEDRAW_EOS && last.by == 7);
    OK(onedraw_stop_free(clone, &error));
    push(stop, 1, "a", "a");
    OK(onedraw_stop_clone(stop, &clone, &error));
    CHECK(push(clone, 9, "x", "").finish == ONEDRAW_STOP_TOKEN);
    CHECK(push(stop, 1, "b", "b").finish == ONEDRAW_LENGTH);
    OK(onedraw_stop_free(clone, &error));
    OK(onedraw_stop_free(stop, &error));

    /* A banned string goes back to its first token. */
    stop = stop_of("{\"banned_strings\": [\"rich tapestry\"]}");
    push(stop, 5, "A", "A");
    push(stop, 9, " very rich", "");
    push(stop, 3, " tape", "");
    last = push(stop, 4, "stry of", "");
    CHECK(last.rewinds == 1 && last.rewind_length == 1 && last.rewind_token == 9 && last.finish == ONEDRAW_GOES_ON);
    push(stop, 8, " fine", " fine");
    OK(onedraw_stop_free(stop, &error));
}
