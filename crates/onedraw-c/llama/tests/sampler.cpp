// The sampler in chains, on rows that are made here.
#include <algorithm>
#include <cmath>
#include <limits>

#include "support.h"
#include "tests.h"

namespace {

using Candidates = std::vector<llama_token_data>;

const size_t SIZE = 1000;

// The row of a step. Neighbouring steps have other favourites.
Row row(uint32_t step) {
    Row row(SIZE);
    uint32_t state = step * 2654435761u + 1;
    for (float & logit : row) {
        state = state * 1664525u + 1013904223u;
        logit = static_cast<float>(state >> 8) / 4194304.0f;
    }
    return row;
}

Candidates candidates(const Row & row) {
    Candidates candidates;
    for (float logit : row) candidates.push_back({static_cast<llama_token>(candidates.size()), logit, 0.0f});
    return candidates;
}

// The last tokens first, and every second one of them before the others.
Candidates mixed(const Row & row) {
    Candidates mixed = candidates(row);
    std::reverse(mixed.begin(), mixed.end());
    std::stable_partition(mixed.begin(), mixed.end(), [](const llama_token_data & candidate) { return candidate.id % 2 == 0; });
    return mixed;
}

llama_token applied(llama_sampler * smpl, Candidates candidates) {
    llama_token_data_array array{candidates.data(), candidates.size(), -1, false};
    llama_sampler_apply(smpl, &array);
    CHECK(array.selected >= 0 && static_cast<size_t>(array.selected) < array.size);
    return array.data[array.selected].id;
}

llama_token drawn(llama_sampler * smpl, const Candidates & candidates) {
    const llama_token token = applied(smpl, candidates);
    llama_sampler_accept(smpl, token);
    return token;
}

// What onedraw.h draws from the rows of the steps.
Tokens expected(const char * json, uint32_t steps) {
    onedraw_params * params = nullptr;
    onedraw_sampler * sampler = nullptr;
    CHECK(onedraw_params_from_json(json, &params, nullptr) == ONEDRAW_OK);
    CHECK(onedraw_sampler_new(params, &sampler, nullptr) == ONEDRAW_OK);
    Tokens tokens;
    for (uint32_t step = 0; step < steps; step++) {
        const Row logits = row(step);
        onedraw_row one{};
        one.logits = logits.data();
        one.vocabulary = SIZE;
        onedraw_sampled sampled;
        CHECK(onedraw_sampler_sample(sampler, &one, &sampled, nullptr) == ONEDRAW_OK);
        tokens.push_back(static_cast<llama_token>(sampled.token));
    }
    onedraw_sampler_free(sampler, nullptr);
    onedraw_params_free(params, nullptr);
    return tokens;
}

// The same through a sampler, from a step on.
Tokens written(llama_sampler * smpl, uint32_t steps, uint32_t from = 0) {
    Tokens tokens;
    for (uint32_t step = from; step < steps; step++) tokens.push_back(drawn(smpl, candidates(row(step))));
    return tokens;
}

void draws_are_those_of_the_library_in_any_order_of_candidates() {
    for (const char * json : {
             R"({"seed": 1})",
             R"({"seed": 2, "temperature": 0.7, "top_k": 40, "top_p": 0.9, "min_p": 0.02})",
             R"({"seed": 3, "repetition_penalty": 1.3, "frequency_penalty": 0.4, "no_repeat_ngram_size": 2})",
             R"({"seed": 4, "mirostat": 2, "mirostat_tau": 3})",
             R"({"seed": 5, "mirostat": 1})",
             R"({"temperature": 0, "logit_bias": {"17": 100}})",
         }) {
        const Tokens tokens = expected(json, 60);
        CHECK(*std::max_element(tokens.begin(), tokens.end()) < static_cast<llama_token>(SIZE));
        CHECK(written(sampler(json).get(), 60) == tokens);
        CHECK(written(chain({sampler(json).release()}).get(), 60) == tokens);
        llama_sampler_ptr smpl = sampler(json);
        for (uint32_t step = 0; step < 60; step++) CHECK(drawn(smpl.get(), mixed(row(step))) == tokens[step]);
    }
}

void a_draw_depends_on_what_was_accepted_and_not_on_what_was_drawn() {
    const char * json = R"({"seed": 9})";
    const Tokens tokens = expected(json, 20);
    llama_sampler_ptr smpl = sampler(json);
    for (uint32_t step = 0; step < 20; step++) {
        for (int again = 0; again < 3; again++) CHECK(applied(smpl.get(), candidates(row(step))) == tokens[step]);
        // Another token moves on too.
        llama_sampler_accept(smpl.get(), step % 2 == 0 ? tokens[step] : 5);
    }
}

// A program moves the sampler through its handle between a draw and the acceptance.
void the_handle_may_move_it_after_a_draw() {
    for (const char * json : {R"({"seed": 9})", R"({"seed": 4, "mirostat": 2, "mirostat_tau": 3})"}) {
        llama_sampler_ptr smpl = sampler(json);
        const Tokens tokens = written(smpl.get(), 10);
        onedraw_sampler * handle = onedraw_llama_handle(smpl.get());
        const llama_token last = applied(smpl.get(), candidates(row(10)));
        CHECK(onedraw_sampler_rewind(handle, 4, nullptr) == ONEDRAW_OK);
        llama_sampler_accept(smpl.get(), last);
        uint32_t output[16];
        size_t count = 0;
        CHECK(onedraw_sampler_output(handle, output, 16, &count, nullptr) == ONEDRAW_OK);
        CHECK(count == 5 && output[4] == static_cast<uint32_t>(last));
        // It is not broken.
        CHECK(onedraw_sampler_rewind(handle, 4, nullptr) == ONEDRAW_OK);
        CHECK(written(smpl.get(), 10, 4) == Tokens(tokens.begin() + 4, tokens.end()));
    }
}

void other_samplers_come_before_it() {
    const llama_logit_bias bias{321, 50.0f};
    llama_sampler_ptr biased =
        chain({llama_sampler_init_logit_bias(SIZE, 1, &bias), sampler(R"({"seed": 1})").release()});
    CHECK(drawn(biased.get(), candidates(row(0))) == 321);
    CHECK(std::string(llama_sampler_name(llama_sampler_chain_get(biased.get(), 1))) == "onedraw");

    // A shortened array is drawn from as the row in which the others have no logit.
    llama_sampler_ptr best = chain({llama_sampler_init_top_k(40), sampler(R"({"seed": 1, "top_k": 40})").release()});
    CHECK(applied(best.get(), candidates(row(0))) == LLAMA_TOKEN_NULL);
    FAILED("smpl", "onedraw_llama_set_vocabulary");
    CHECK(onedraw_llama_set_vocabulary(best.get(), SIZE));
    CHECK(written(best.get(), 60) == expected(R"({"seed": 1, "top_k": 40})", 60));
}

void reset_clone_and_copy() {
    for (const char * json : {
             R"({"seed": 6, "repetition_penalty": 1.2, "frequency_penalty": 1, "mirostat": 2})",
             R"({"temperature": 1.5})",
         }) {
        llama_sampler_ptr smpl = chain({sampler(json).release()});
        const Tokens tokens = written(smpl.get(), 40);
        llama_sampler_reset(smpl.get());
        CHECK(written(smpl.get(), 20) == Tokens(tokens.begin(), tokens.begin() + 20));

        llama_sampler_ptr clone(llama_sampler_clone(smpl.get()));
        const Tokens rest(tokens.begin() + 20, tokens.end());
        CHECK(written(clone.get(), 40, 20) == rest);
        CHECK(written(smpl.get(), 40, 20) == rest);

        // The copy of a sampler between apply and accept has learned as much.
        llama_sampler_reset(smpl.get());
        CHECK(applied(smpl.get(), candidates(row(0))) == tokens[0]);
        llama_sampler_copy(smpl.get(), clone.get());
        for (llama_sampler * each : {smpl.get(), clone.get()}) {
            llama_sampler_accept(each, tokens[0]);
            CHECK(written(each, 40, 1) == Tokens(tokens.begin() + 1, tokens.end()));
        }
    }
}

void a_prompt_is_known_to_the_penalties() {
    const llama_token best = applied(sampler(R"({"temperature": 0})").get(), candidates(row(0)));
    llama_sampler_ptr smpl = sampler(R"({"temperature": 0, "repetition_penalty": 1000})");
    CHECK(onedraw_llama_set_prompt(smpl.get(), &best, 1));
    CHECK(applied(smpl.get(), candidates(row(0))) != best);
    const llama_token negative = -5;
    CHECK(onedraw_llama_set_prompt(smpl.get(), &negative, 1));
    CHECK(applied(smpl.get(), candidates(row(0))) == LLAMA_TOKEN_NULL);
    FAILED("outside_vocabulary", "prompt_token_ids: token 4294967291");
    // A reset forgets it.
    llama_sampler_reset(smpl.get());
    CHECK(applied(smpl.get(), candidates(row(0))) == best);
    CHECK(!onedraw_llama_set_prompt(smpl.get(), nullptr, 1));
    FAILED("tokens", "NULL");
    CHECK(onedraw_llama_set_prompt(smpl.get(), nullptr, 0));
}

void errors_are_told_and_spoil_nothing() {
    CHECK(llama_sampler_init_onedraw(nullptr) == nullptr);
    FAILED("json", "NULL");
    CHECK(llama_sampler_init_onedraw(R"({"top_p": 2})") == nullptr);
    FAILED("top_p", "must be in [0, 1], not 2");
    CHECK(llama_sampler_init_onedraw(R"({"top_q": 0.5})") == nullptr);
    FAILED("top_q", "");
    CHECK(llama_sampler_init_onedraw(R"({"seed")") == nullptr);

    const Tokens tokens = expected(R"({"seed": 8})", 30);
    llama_sampler_ptr smpl = sampler(R"({"seed": 8})");
    CHECK(written(smpl.get(), 10) == Tokens(tokens.begin(), tokens.begin() + 10));
    Row bad = row(10);
    bad[77] = std::nanf("");
    CHECK(drawn(smpl.get(), candidates(bad)) == LLAMA_TOKEN_NULL);
    FAILED("nan_logit", "77");
    bad.assign(SIZE, -std::numeric_limits<float>::infinity());
    CHECK(drawn(smpl.get(), candidates(bad)) == LLAMA_TOKEN_NULL);
    FAILED("nothing_left", "");
    llama_token_data_array none{nullptr, 0, -1, false};
    llama_sampler_apply(smpl.get(), &none);
    CHECK(none.selected == -1);
    Candidates twice = candidates(row(10));
    twice[3].id = 4;
    CHECK(drawn(smpl.get(), twice) == LLAMA_TOKEN_NULL);
    CHECK(written(smpl.get(), 30, 10) == Tokens(tokens.begin() + 10, tokens.end()));

    // A token that cannot be accepted leaves no history to draw from, until a reset.
    llama_sampler_accept(smpl.get(), -7);
    FAILED("token", "negative");
    CHECK(drawn(smpl.get(), candidates(row(30))) == LLAMA_TOKEN_NULL);
    FAILED("token", "negative");
    llama_sampler_ptr clone(llama_sampler_clone(smpl.get()));
    CHECK(drawn(clone.get(), candidates(row(30))) == LLAMA_TOKEN_NULL);
    llama_sampler_reset(smpl.get());
    CHECK(written(smpl.get(), 30) == tokens);
}

void foreign_samplers_are_refused() {
    llama_sampler_ptr greedy(llama_sampler_init_greedy());
    llama_sampler_ptr empty = chain({});
    llama_sampler_ptr before = chain({sampler("{}").release(), llama_sampler_init_greedy()});
    for (llama_sampler * foreign : {greedy.get(), empty.get(), before.get(), static_cast<llama_sampler *>(nullptr)}) {
        CHECK(onedraw_llama_sample(nullptr, foreign, 0) == LLAMA_TOKEN_NULL);
        FAILED("smpl", "is not a sampler of onedraw's");
        CHECK(onedraw_llama_handle(foreign) == nullptr && !onedraw_llama_set_vocabulary(foreign, 3));
    }
    CHECK(onedraw_llama_sample(nullptr, sampler("{}").get(), 0) == LLAMA_TOKEN_NULL);
    FAILED("ctx", "NULL");
    CHECK(onedraw_llama_vocabulary(nullptr) == nullptr);
    FAILED("vocab", "NULL");
    const int32_t idx = 0;
    llama_token token = 0;
    CHECK(onedraw_llama_verify(nullptr, empty.get(), nullptr, nullptr, 0, &token) == 0);
    FAILED("guesses", "NULL");
    CHECK(onedraw_llama_verify(nullptr, empty.get(), &idx, nullptr, 0, nullptr) == 0);
    CHECK(onedraw_llama_verify(nullptr, empty.get(), &idx, nullptr, 1, &token) == 0);
    CHECK(onedraw_llama_verify(nullptr, empty.get(), &idx, nullptr, -1, &token) == 0 && token == 0);
    onedraw_sampler * handle = onedraw_llama_handle(sampler("{}").get());
    // It was freed with its sampler.
    uint64_t seed = 0;
    CHECK(onedraw_sampler_seed(handle, &seed, nullptr) == ONEDRAW_BAD_HANDLE);
    llama_sampler_ptr smpl = chain({sampler(R"({"seed": 12345678901234567890})").release()});
    CHECK(onedraw_sampler_seed(onedraw_llama_handle(smpl.get()), &seed, nullptr) == ONEDRAW_OK);
    CHECK(seed == 12345678901234567890u);
}

}  // namespace

void test_sampler() {
    draws_are_those_of_the_library_in_any_order_of_candidates();
    a_draw_depends_on_what_was_accepted_and_not_on_what_was_drawn();
    the_handle_may_move_it_after_a_draw();
    other_samplers_come_before_it();
    reset_clone_and_copy();
    a_prompt_is_known_to_the_penalties();
    errors_are_told_and_spoil_nothing();
    foreign_samplers_are_refused();
}
