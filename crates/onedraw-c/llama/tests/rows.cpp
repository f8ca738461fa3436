// The logits of a model for a given text: rows MODEL.gguf PROMPT TOKENS LOGITS
// TOKENS has the ids after the prompt. LOGITS receives the row, as 32-bit floats, that each of them is drawn from.
#include <fstream>

#include "support.h"

int main(int count, char ** arguments) {
    CHECK(count == 5);
    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    const Model model(arguments[1]);
    Settings settings;
    settings.cache = GGML_TYPE_F32;
    Context context(model, settings);
    const Tokens prompt = model.tokens(arguments[2]);
    context.read(prompt);
    std::ifstream tokens(arguments[3]);
    std::ofstream logits(arguments[4], std::ios::binary);
    auto position = static_cast<int32_t>(prompt.size());
    for (llama_token token; tokens >> token; position++) {
        const Row row = context.row(-1);
        logits.write(reinterpret_cast<const char *>(row.data()), static_cast<std::streamsize>(row.size() * sizeof(float)));
        context.add(token, position);
        context.decode();
    }
    CHECK(logits.good());
}
