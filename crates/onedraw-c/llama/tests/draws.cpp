// Draws from the logits of a model: in place, through llama.cpp's own function, and with onedraw.h.
#include "support.h"
#include "tests.h"

namespace {

// Writes tokens, each drawn by `draw`.
Tokens written(const Model & model, size_t steps, const std::function<llama_token(llama_context *)> & draw) {
    Context context(model, {});
    Tokens tokens = model.tokens("Once upon a time");
    const size_t prompt = tokens.size();
    context.read(tokens);
    while (tokens.size() < prompt + steps) {
        tokens.push_back(draw(context.get()));
        CHECK(tokens.back() != LLAMA_TOKEN_NULL);
        context.add(tokens.back(), static_cast<int32_t>(tokens.size()) - 1);
        context.decode();
    }
    return Tokens(tokens.begin() + static_cast<ptrdiff_t>(prompt), tokens.end());
}

void every_way_draws_the_same(const Model & model) {
    for (const char * json : {
             R"({"seed": 7, "temperature": 0.7, "top_k": 50, "top_p": 0.9})",
             R"({"seed": 1, "repetition_penalty": 1.2, "min_p": 0.05})",
             R"({"seed": 2, "mirostat": 2})",
         }) {
        onedraw_params * params = nullptr;
        onedraw_sampler * plain = nullptr;
        CHECK(onedraw_params_from_json(json, &params, nullptr) == ONEDRAW_OK);
        CHECK(onedraw_sampler_new(params, &plain, nullptr) == ONEDRAW_OK);
        const Tokens expected = written(model, 80, [&](llama_context * context) {
            onedraw_row row{};
            row.logits = llama_get_logits_ith(context, -1);
            row.vocabulary = model.size();
            onedraw_sampled sampled;
            CHECK(onedraw_sampler_sample(plain, &row, &sampled, nullptr) == ONEDRAW_OK);
            return static_cast<llama_token>(sampled.token);
        });
        onedraw_sampler_free(plain, nullptr);
        onedraw_params_free(params, nullptr);

        for (bool in_chain : {false, true}) {
            llama_sampler_ptr smpl = in_chain ? chain({sampler(json).release()}) : sampler(json);
            CHECK(written(model, 80, [&](llama_context * context) {
                      return onedraw_llama_sample(context, smpl.get(), -1);
                  }) == expected);
            llama_sampler_reset(smpl.get());
            CHECK(written(model, 80, [&](llama_context * context) {
                      return llama_sampler_sample(smpl.get(), context, -1);
                  }) == expected);
        }
        // Behind a sampler that changes nothing, through the array; and behind one that shortens it.
        llama_sampler_ptr behind = chain({llama_sampler_init_top_p(1.0f, 1), sampler(json).release()});
        CHECK(written(model, 80, [&](llama_context * context) {
                  return onedraw_llama_sample(context, behind.get(), -1);
              }) == expected);
    }
    const char * json = R"({"seed": 7, "temperature": 0.7, "top_k": 50, "frequency_penalty": 0.5})";
    llama_sampler_ptr alone = sampler(json), behind = chain({llama_sampler_init_top_k(500), sampler(json).release()});
    CHECK(written(model, 80, [&](llama_context * context) { return onedraw_llama_sample(context, alone.get(), -1); }) ==
          written(model, 80, [&](llama_context * context) { return onedraw_llama_sample(context, behind.get(), -1); }));
}

void outputs_that_are_not_there(const Model & model) {
    llama_sampler_ptr smpl = sampler("{}");
    Context context(model, {});
    context.read(model.tokens("Tom saw a big"));
    CHECK(onedraw_llama_sample(context.get(), smpl.get(), 100) == LLAMA_TOKEN_NULL);
    FAILED("idx", "no logits");
    CHECK(onedraw_llama_sample(context.get(), smpl.get(), 0) == LLAMA_TOKEN_NULL);
    FAILED("idx", "no logits");
    // A token that the parameters name must be one of the model's.
    CHECK(onedraw_llama_sample(context.get(), sampler(R"({"logit_bias": {"4096": 1}})").get(), -1) == LLAMA_TOKEN_NULL);
    FAILED("outside_vocabulary", "logit_bias");
    CHECK(onedraw_llama_sample(context.get(), sampler(R"({"logit_bias": {"4095": 100}})").get(), -1) == 4095);
}

void sampling_on_the_backend_is_refused(const Model & model) {
    llama_sampler_ptr smpl = sampler(R"({"seed": 3})");
    const Tokens prompt = model.tokens("Tom saw a big");
    Context plain(model, {});
    plain.read(prompt);
    const llama_token expected = onedraw_llama_sample(plain.get(), smpl.get(), -1);

    for (llama_sampler * first : {llama_sampler_init_greedy(), llama_sampler_init_top_k(10)}) {
        Context context(model, {});
        llama_sampler_ptr backend = chain({first});
        CHECK(llama_set_sampler(context.get(), 0, backend.get()));
        context.read(prompt);
        CHECK(onedraw_llama_sample(context.get(), smpl.get(), -1) == LLAMA_TOKEN_NULL);
        FAILED("ctx", "backend");
        // Without it the rows are back.
        CHECK(llama_set_sampler(context.get(), 0, nullptr));
        context.cut(0);
        context.read(prompt);
        llama_sampler_reset(smpl.get());
        CHECK(onedraw_llama_sample(context.get(), smpl.get(), -1) == expected);
    }
}

}  // namespace

void test_draws(const Model & model) {
    every_way_draws_the_same(model);
    outputs_that_are_not_there(model);
    sampling_on_the_backend_is_refused(model);
}
