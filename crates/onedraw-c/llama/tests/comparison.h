// Texts that are written in other ways, beside the same texts written alone, token by token.
#ifndef COMPARISON_H
#define COMPARISON_H

#include "support.h"

// A text of one sequence, one token in each pass: its tokens after the prompt, and the row that each was drawn from.
struct Alone {
    Tokens prompt, tokens;
    std::vector<Row> rows;
};

inline Alone write_alone(const Model & model, const Settings & settings, const std::string & prompt, const std::string & json, size_t steps) {
    Alone alone;
    alone.prompt = model.tokens(prompt);
    llama_sampler_ptr smpl = sampler(json);
    Context context(model, settings);
    context.read(alone.prompt);
    while (alone.tokens.size() < steps) {
        alone.rows.push_back(context.row(-1));
        alone.tokens.push_back(onedraw_llama_sample(context.get(), smpl.get(), -1));
        CHECK(alone.tokens.back() != LLAMA_TOKEN_NULL);
        context.add(alone.tokens.back(), static_cast<int32_t>(alone.prompt.size() + alone.tokens.size()) - 1);
        context.decode();
    }
    return alone;
}

// Holds draws against those of texts alone. Rows with the same bits must draw the same token. Where llama.cpp computes
// other bits, that is counted, and once such a row draws another token, the rest of the text is another text.
class Comparison {
public:
    // The text so far is that of `alone`, and its next token is drawn from this row. Whether it still is the same.
    bool step(const Alone & alone, size_t place, const Row & row, llama_token token) {
        CHECK(token != LLAMA_TOKEN_NULL);
        rows_++;
        const bool same = same_bits(alone.rows[place], row);
        if (!same) others_++;
        if (token == alone.tokens[place]) return true;
        CHECK(!same);
        parted_++;
        return false;
    }

    // Says what was found. With `exact`, llama.cpp was built and set up so that every bit must be the same.
    void report(const char * what, size_t texts, bool exact) const {
        std::printf(
            "%s: %zu of %zu texts as alone, token by token; %zu of %zu rows have other bits\n", what, texts - parted_, texts, others_, rows_);
        CHECK(rows_ > 0 && (!exact || (others_ == 0 && parted_ == 0)));
    }

private:
    size_t rows_ = 0, others_ = 0, parted_ = 0;
};

#endif
