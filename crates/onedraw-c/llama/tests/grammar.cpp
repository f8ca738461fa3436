// Grammars: llama.cpp's, before the sampler in a chain, and onedraw's, as a mask.
#include <cctype>

#include "support.h"
#include "tests.h"

namespace {

const char * const SAMPLING = R"({"seed": 11, "top_k": 40})";
// What the grammars describe.
const char * const PATTERN = "[A-Z][a-z]{1,8} is [0-9]{2}[.]";

bool fits(const std::string & text) {
    size_t name = 0;
    while (name < text.size() && std::isalpha(static_cast<unsigned char>(text[name]))) name++;
    const std::string rest = text.substr(name);
    if (name < 2 || name > 9 || !std::isupper(static_cast<unsigned char>(text[0])) || rest.size() != 7) return false;
    for (size_t i = 1; i < name; i++) {
        if (!std::islower(static_cast<unsigned char>(text[i]))) return false;
    }
    return rest.compare(0, 4, " is ") == 0 && std::isdigit(static_cast<unsigned char>(rest[4])) &&
           std::isdigit(static_cast<unsigned char>(rest[5])) && rest[6] == '.';
}

// Writes until a token that ends a text.
std::string written(const Model & model, const std::function<llama_token(llama_context *)> & draw) {
    Context context(model, {});
    Tokens tokens = model.tokens("One day"), text;
    context.read(tokens);
    for (;;) {
        const llama_token token = draw(context.get());
        if (token == LLAMA_TOKEN_NULL) std::fprintf(stderr, "%s\n", onedraw_llama_error()->message);
        CHECK(token != LLAMA_TOKEN_NULL);
        if (llama_vocab_is_eog(model.vocab(), token)) return model.text(text);
        text.push_back(token);
        CHECK(text.size() < 100);
        context.add(token, static_cast<int32_t>(tokens.size() + text.size()) - 1);
        context.decode();
    }
}

std::string with_gbnf(const Model & model, const char * json) {
    llama_sampler * grammar =
        llama_sampler_init_grammar(model.vocab(), R"(root ::= [A-Z] [a-z]{1,8} " is " [0-9] [0-9] ".")", "root");
    CHECK(grammar != nullptr);
    llama_sampler_ptr smpl = chain({grammar, sampler(json).release()});
    return written(model, [&](llama_context * context) { return onedraw_llama_sample(context, smpl.get(), -1); });
}

std::string with_mask(const Model & model, const char * json) {
    onedraw_vocabulary * vocabulary = onedraw_llama_vocabulary(model.vocab());
    CHECK(vocabulary != nullptr);
    onedraw_grammar * grammar = nullptr;
    onedraw_matcher * matcher = nullptr;
    CHECK(onedraw_grammar_new(vocabulary, "regex", PATTERN, &grammar, nullptr) == ONEDRAW_OK);
    CHECK(onedraw_matcher_new(grammar, &matcher, nullptr) == ONEDRAW_OK);
    llama_sampler_ptr smpl = sampler(json);
    std::vector<uint32_t> mask((model.size() + 31) / 32);
    const std::string text = written(model, [&](llama_context * context) {
        size_t count = 0;
        CHECK(onedraw_matcher_mask(matcher, mask.data(), mask.size(), &count, nullptr) == ONEDRAW_OK);
        const llama_token token = onedraw_llama_sample_masked(context, smpl.get(), -1, mask.data(), count);
        CHECK(onedraw_matcher_accept(matcher, static_cast<uint32_t>(token), nullptr) == ONEDRAW_OK);
        return token;
    });
    onedraw_matcher_free(matcher, nullptr);
    onedraw_grammar_free(grammar, nullptr);
    onedraw_vocabulary_free(vocabulary, nullptr);
    return text;
}

void both_give_a_text_that_fits(const Model & model) {
    for (const char * json : {SAMPLING, R"({"seed": 5, "min_p": 0.1})", R"({"temperature": 0})"}) {
        const std::string text = with_gbnf(model, json);
        CHECK(fits(text) && !fits(text + "x"));
        // Both forbid the same tokens of such a text, so the same ones are drawn.
        CHECK(with_mask(model, json) == text);
    }
    CHECK(with_gbnf(model, SAMPLING) != with_gbnf(model, R"({"seed": 12})"));
}

void a_grammar_that_leaves_nothing(const Model & model) {
    Context context(model, {});
    context.read(model.tokens("One day"));
    // Of what the grammar allows, the parameters allow nothing.
    llama_sampler * grammar = llama_sampler_init_grammar(model.vocab(), "root ::= [a-z]", "root");
    llama_sampler_ptr smpl =
        chain({grammar, sampler(R"({"allowed_token_ids": [0]})").release()});
    CHECK(onedraw_llama_sample(context.get(), smpl.get(), -1) == LLAMA_TOKEN_NULL);
    FAILED("nothing_left", "");

    const uint32_t none[128] = {0};
    llama_sampler_ptr alone = sampler("{}");
    CHECK(onedraw_llama_sample_masked(context.get(), alone.get(), -1, none, 128) == LLAMA_TOKEN_NULL);
    FAILED("nothing_left", "");
    CHECK(onedraw_llama_sample_masked(context.get(), alone.get(), -1, none, 127) == LLAMA_TOKEN_NULL);
    CHECK(onedraw_llama_sample_masked(context.get(), alone.get(), -1, nullptr, 128) == LLAMA_TOKEN_NULL);
    FAILED("mask", "");
    CHECK(onedraw_llama_sample_masked(context.get(), smpl.get(), -1, none, 128) == LLAMA_TOKEN_NULL);
    FAILED("smpl", "no other sampler");
    CHECK(onedraw_llama_sample(context.get(), alone.get(), -1) != LLAMA_TOKEN_NULL);
}

}  // namespace

void test_grammar(const Model & model) {
    both_give_a_text_that_fits(model);
    a_grammar_that_leaves_nothing(model);
}
