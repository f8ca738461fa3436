// Draws with many parameters from the logits of a model, for the comparison in check.py:
//   tokens MODEL.gguf PARAMETERS LOGITS TOKENS
// PARAMETERS has a JSON object in each line. LOGITS receives a row of 32-bit floats for each, TOKENS the ids that are
// drawn: in place, and through llama.cpp's own function.
#include <fstream>

#include "support.h"

int main(int count, char ** arguments) {
    CHECK(count == 5);
    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    const Model model(arguments[1]);
    std::ifstream parameters(arguments[2]);
    std::ofstream logits(arguments[3], std::ios::binary), tokens(arguments[4]);
    Context context(model, {});

    // A text in which each token has other parameters.
    llama_token next = llama_vocab_bos(model.vocab());
    int32_t position = 0;
    for (std::string line; std::getline(parameters, line); position++) {
        if (position == 500) {
            position = 0;
            context.cut(0);
        }
        context.add(next, position);
        context.decode();
        const Row row = context.row(-1);
        logits.write(reinterpret_cast<const char *>(row.data()), static_cast<std::streamsize>(row.size() * sizeof(float)));

        llama_sampler_ptr in_place = sampler(line), through = chain({sampler(line).release()});
        const llama_token token = onedraw_llama_sample(context.get(), in_place.get(), -1);
        const std::string error = onedraw_llama_error()->kind;
        const llama_token other = llama_sampler_sample(through.get(), context.get(), -1);
        if (token == LLAMA_TOKEN_NULL) CHECK(error == onedraw_llama_error()->kind);
        tokens << token << ' ' << other << ' ' << (token == LLAMA_TOKEN_NULL ? error : "-") << '\n';
        // Parameters may leave nothing, or end the text.
        next = token > 0 ? token : 1 + position % 4095;
    }
    CHECK(logits.good() && tokens.good());
}
