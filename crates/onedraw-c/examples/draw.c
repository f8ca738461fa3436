/* Draws eight tokens from one row of logits. */
#include <stdio.h>

#include "onedraw.h"

int main(void) {
    const float logits[] = {1.5f, 0.2f, 3.1f, -4.0f, 2.6f};
    const onedraw_row row = {.logits = logits, .vocabulary = 5};
    onedraw_params *params;
    onedraw_sampler *sampler;
    onedraw_sampled sampled;
    onedraw_error error;
    if (onedraw_params_from_json("{\"temperature\": 0.8, \"top_p\": 0.9, \"seed\": 42}", &params, &error)) goto failed;
    if (onedraw_sampler_new(params, &sampler, &error)) goto failed;
    for (int i = 0; i < 8; i++) {
        if (onedraw_sampler_sample(sampler, &row, &sampled, &error)) goto failed;
        printf("%u ", (unsigned)sampled.token);
    }
    putchar('\n');
    onedraw_sampler_free(sampler, NULL);
    onedraw_params_free(params, NULL);
    return 0;
failed:
    fprintf(stderr, "%s\n", error.message);
    return 1;
}
