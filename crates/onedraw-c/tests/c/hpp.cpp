// Tests of onedraw.hpp.
#include "onedraw.hpp"

#include <array>
#include <cmath>
#include <cstring>

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            std::exit(1);                                                           \
        }                                                                           \
    } while (0)

namespace {

template <class Call>
void fails(onedraw_status status, const char *kind, const char *words, Call call) {
#ifdef __cpp_exceptions
    try {
        call();
    } catch (const onedraw::Error &error) {
        if (error.status() == status && error.kind() == kind && std::strcmp(error.what(), words) == 0) return;
        std::fprintf(stderr, "%d %s: %s\n", static_cast<int>(error.status()), error.kind().c_str(), error.what());
    }
    CHECK(!"the error that is expected");
#else
    // It would end the program.
    (void)status, (void)kind, (void)words, (void)call;
#endif
}

void params() {
    onedraw::Params params;
    std::vector<std::uint32_t> ids{3, 1};
    params.set("temperature", 0.7).set("top_k", 50).set("ignore_eos", true).set("stop_token_ids", ids).set("order", "llama.cpp");
    params.set("stop", std::vector<std::string>{"a", "b"}).set_json("logit_bias", "{\"5\": 1.5}").seed(UINT64_MAX);
    // Whole numbers of any type.
    params.set("max_tokens", std::size_t{16}).set("n", std::uint32_t{1}).set("min_tokens", 0L).set("logprobs", std::uint8_t{0});
    params.check();
    fails(ONEDRAW_BAD_ARGUMENT, "n", "n: is larger than 9223372036854775807; for a seed use seed()",
          [&] { params.set("n", UINT64_MAX); });
    // A zero would end the text for C.
    const std::string with_zero("a\0b", 3);
    fails(ONEDRAW_BAD_ARGUMENT, "stop", "stop: has a zero byte in it", [&] { params.set("stop", std::vector<std::string>{with_zero}); });
    fails(ONEDRAW_BAD_ARGUMENT, "order", "order: has a zero byte in it", [&] { params.set("order", with_zero); });
    fails(ONEDRAW_BAD_ARGUMENT, "json", "json: has a zero byte in it", [&] { onedraw::Params::from_json(with_zero); });
    auto same = onedraw::Params::from_json(
        R"({"temperature": 0.7, "top_k": 50, "ignore_eos": true, "stop_token_ids": [3, 1], "order": "llama.cpp", "stop": ["a", "b"],
            "logit_bias": {"5": 1.5}, "seed": 18446744073709551615, "logprobs": 0})");
    CHECK(params.to_json() == same.to_json());
    CHECK(onedraw::Params::preset("balanced").to_json() == onedraw::Params::from_json(R"({"temperature": 0.7, "top_k": 50, "top_p": 0.9})").to_json());
    auto [imported, notes] = onedraw::Params::import_settings(R"({"do_sample": false, "num_beams": 4})");
    CHECK(notes.find("lost: num_beams: beam search is not set by sampling parameters") != std::string::npos);
    auto nothing_lost = onedraw::Params::import_settings(R"({"temperature": 0.5, "max_tokens": 16})", "openai");
    CHECK(nothing_lost.first.get() != nullptr && nothing_lost.second == std::string(nothing_lost.second.c_str()));
    fails(ONEDRAW_BAD_PARAMETER, "top_k", "top_k: invalid type: floating point `2.5`, expected a whole number", [&] { params.set("top_k", 2.5); });
    // Moved: the other one owns it.
    onedraw_params *handle = params.get();
    onedraw::Params moved = std::move(params);
    CHECK(moved.get() == handle && params.get() == nullptr);
    fails(ONEDRAW_BAD_HANDLE, "params", "params: the handle is NULL", [&] { params.check(); });
}

void samplers() {
    const std::array<float, 4> logits{1.0f, 3.5f, 0.2f, 2.9f};
    onedraw::Sampler sampler(onedraw::Params::from_json(R"({"temperature": 0.8, "repetition_penalty": 1.3, "seed": 7, "logprobs": 2, "kept": "ids"})"));
    const std::vector<std::uint32_t> expected{3, 1, 3, 0, 1};
    for (std::uint32_t token : expected) CHECK(sampler.sample(logits).token == token);
    CHECK(sampler.output() == expected && sampler.seed() == 7);
    CHECK(sampler.logprobs().size() == 2 && sampler.kept().ids.size() == 4 && sampler.kept().summary.count == 4);
    onedraw::Sampler loaded = onedraw::Sampler::load(sampler.save()), clone = sampler.clone();
    auto peeked = sampler.peek(logits);
    CHECK(loaded.sample(logits).token == peeked.token && clone.sample(logits).token == peeked.token);
    sampler.accept(peeked);
    CHECK(sampler.output() == clone.output());
    sampler.rewind(0);
    sampler.accept(3);
    CHECK(sampler.sample(logits).token == 1);
    CHECK(sampler.distribution(logits).size() == 4);
    auto explained = sampler.explain(logits, 1);
    CHECK(explained.front() == '{' && explained.back() == '}' && sampler.prompt_logprobs({logits.data(), 0, 4}) == "[]");
    CHECK(explained.find("\"stage\":\"penalties\"") != std::string::npos);
    CHECK(sampler.sample_uniform(logits, 0.0).rank >= 1);
    sampler = onedraw::Sampler(onedraw::Params(), 0);
    fails(ONEDRAW_BAD_ROW, "nan_logit", "the logit of token 0 is NaN; logits are finite or -inf (masked)", [&] {
        const std::vector<float> bad{NAN};
        sampler.sample(bad);
    });
    const std::vector<std::uint16_t> ones(3, 0x3f80);
    CHECK(sampler.peek({ones.data(), 3, onedraw::Dtype::bf16}).token < 3);

    // The same draws again, after a prompt that is not that of the parameters.
    sampler = onedraw::Sampler(onedraw::Params::from_json(R"({"temperature": 0, "repetition_penalty": 2})"));
    CHECK(sampler.sample(logits).token == 1);
    sampler.reset();
    sampler.set_prompt(std::vector<std::uint32_t>{1});
    CHECK(sampler.sample(logits).token == 3);
    sampler.reset();
    CHECK(sampler.output().empty() && sampler.sample(logits).token == 1);

    // Candidates as other programs have them, in any order, one of them missing.
    struct Candidate {
        std::int32_t id;
        float logit, probability;
    };
    const std::vector<Candidate> candidates{{3, 2.9f, 0}, {0, 1.0f, 0}, {2, 0.2f, 0}};
    std::vector<float> row(4);
    onedraw::row_from_records(candidates, &Candidate::id, &Candidate::logit, row);
    CHECK((row == std::vector<float>{1.0f, -INFINITY, 0.2f, 2.9f}));
    onedraw::row_from_records(std::vector<Candidate>(), &Candidate::id, &Candidate::logit, row);
    CHECK((row == std::vector<float>(4, -INFINITY)));
    fails(ONEDRAW_BAD_ARGUMENT, "ids", "ids: record 0 has id 3, which is no token of a vocabulary of 3",
          [&] { onedraw::row_from_records(candidates, &Candidate::id, &Candidate::logit, {row.data(), 3}); });
}

void batches() {
    const float logits[3][3] = {{0, 2, 1}, {3, 0, 1}, {0, 0, 5}};
    onedraw::Batch batch;
    auto greedy = onedraw::Params::from_json(R"({"temperature": 0})");
    std::vector<onedraw::Sequence> sequences{batch.add(greedy), batch.add(greedy)};
    std::vector<onedraw::Sampled> drawn;
    auto verdict = batch.verify(sequences[0], {1, 1}, logits);
    // A 0 in braces is a token and no pointer.
    CHECK(batch.verify(sequences[0], {0, 1}, logits).path.empty() && batch.verify(sequences[0], {1, 0}, logits).path.size() == 2);
    CHECK(batch.verify(sequences[0], {1, 0}, logits, {ONEDRAW_ROOT, 0}).path.size() == 2);
    fails(ONEDRAW_BAD_ARGUMENT, "parents", "parents: there must be one for each guess, or none",
          [&] { batch.verify(sequences[0], {1, 0}, logits, {0}); });
    CHECK(verdict.path == std::vector<std::size_t>{0} && verdict.sampled.size() == 2 && verdict.sampled[1].token == 0);
    const std::vector<const float *> pointers{logits[0], logits[1], logits[2]};
    onedraw::Sampler sampler(onedraw::Params::from_json(R"({"temperature": 0, "logprobs": 2})"));
    auto same = sampler.verify(std::vector<std::uint32_t>{1, 1}, {pointers, 3});
    CHECK(same.path == verdict.path && same.sampled.size() == 2 && same.sampled[0].token == 1 && same.sampled[1].token == 0);
    CHECK(sampler.output().empty());
    CHECK(same.sampled[0].logprobs == 2 && sampler.logprobs(1).front().token == 0);
    CHECK(!verdict.error);
    const float with_nan[2][3] = {{0, 2, 1}, {3, std::numeric_limits<float>::quiet_NaN(), 1}};
    same = sampler.verify({1}, with_nan);
    CHECK(same.path == verdict.path && same.sampled.size() == 1 && same.sampled[0].token == 1);
    CHECK(same.error && same.error->kind() == "nan_logit" && same.error->status() == ONEDRAW_BAD_ROW);
    const std::uint16_t halves[2][3] = {{0, 0x4000, 0x3c00}, {0x4200, 0, 0x3c00}};
    const void *const of_halves[] = {halves[1], halves[0]};
    drawn = batch.peek(sequences, {of_halves, onedraw::Dtype::f16, 3});
    CHECK(drawn[0].token == 0 && drawn[1].token == 1);
    drawn = batch.peek(sequences, {halves, onedraw::Dtype::f16, 2, 3});
    CHECK(drawn[0].token == 1 && drawn[1].token == 0);
    for (const auto &sampled : verdict.sampled) batch.accept(sequences[0], sampled);
    CHECK((batch.output(sequences[0]) == std::vector<std::uint32_t>{1, 0}));
    drawn = batch.sample(sequences, {logits[0], 2, 3});
    CHECK(drawn[0].token == 1 && drawn[0].position == 2 && drawn[1].token == 0 && !batch.row_error(0));
    const float bad[2][3] = {{0, NAN, 1}, {3, 0, 1}};
    drawn = batch.peek(sequences, bad);
    CHECK(drawn[0].status == ONEDRAW_BAD_ROW && drawn[1].token == 0 && batch.row_error(0)->kind() == "nan_logit");
    auto fork = batch.fork(sequences[1]);
    batch.rewind(fork, 0);
    CHECK(batch.output(fork).empty() && batch.size() == 3 && batch.runners(fork, logits[0], 2).size() == 2);
    CHECK(batch.load(batch.save(sequences[0])) != fork && batch.distribution(fork, logits[0]).size() == 1);
    batch.set_prompt(fork, std::vector<std::uint32_t>{1});
    batch.accept(fork, 2);
    batch.reset(fork);
    CHECK(batch.output(fork).empty());
    batch.remove(fork);
    fails(ONEDRAW_BAD_SEQUENCE, "unknown_sequence", "the sequence is not in the batch", [&] { batch.remove(fork); });
    sequences[1] = fork;
    drawn = batch.peek(sequences, {logits[0], 2, 3});
    CHECK(drawn[0].status == ONEDRAW_OK && drawn[1].status == ONEDRAW_BAD_SEQUENCE);
    fails(ONEDRAW_BAD_ARGUMENT, "rows", "rows: there must be one for each sequence", [&] { batch.sample(sequences, logits); });
    CHECK(batch.explain(sequences[0], logits[0], 2).front() == '{');
    CHECK(batch.add_all(onedraw::Params::from_json(R"({"n": 3})")).size() == 3);
}

void texts() {
    onedraw::StopMatcher stop(onedraw::Params::from_json(R"({"stop": ["END"]})"));
    std::string shown;
    stop.push(1, "the E", shown);
    CHECK(shown == "the ");
    onedraw::StopMatcher clone = stop.clone();
    CHECK(stop.push(2, "ND of", shown).finish == ONEDRAW_STOP_STRING && shown == "the ");
    clone.finish(shown);
    CHECK(shown == "the E");

    const std::uint32_t eos[] = {0};
    onedraw::Vocabulary vocabulary({"", "y", "n", "yes", "no", "e", "s", "o"}, eos);
    onedraw::Matcher matcher(onedraw::Grammar(vocabulary, "choices", R"(["yes", "no"])"));
    const std::vector<float> logits{0, 1, 2, 0.5f, 0.1f, 3, 0, 9};
    onedraw::Sampler sampler(onedraw::Params::preset("deterministic"));
    CHECK(sampler.sample({logits, matcher.mask()}).token == 2);
    matcher.accept(2);
    onedraw::Matcher other = matcher.clone();
    matcher.rollback(1);
    CHECK(!matcher.may_end() && other.mask() == std::vector<std::uint32_t>{1u << 7} && matcher.forced().empty());
}

void beams() {
    onedraw::Beams beams(onedraw::Params::from_json(R"({"max_tokens": 3, "n": 2, "eos_token_id": 2})"), R"({"beams": 2})");
    const float logits[2][3] = {{0.5f, 0.0f, 1.0f}, {0.5f, 0.0f, 1.0f}};
    while (!beams.is_done()) {
        auto branches = beams.step({logits[0], beams.size(), 3});
        for (std::size_t i = 0; i < branches.size(); i++) CHECK(beams.tokens(i).back() == branches[i].token);
    }
    auto found = beams.finish();
    CHECK(found.size() == 2 && found[0].tokens == std::vector<std::uint32_t>{2} && found[0].text.finish == ONEDRAW_EOS);

    onedraw::Beams asked(onedraw::Params::from_json(R"({"max_tokens": 3})"), R"({"beams": 2})");
    int questions = 0;
    auto branches = asked.step({logits[0], 1, 3}, [&](std::size_t, std::uint32_t token) -> onedraw_finish {
        questions++;
        return token == 2 ? ONEDRAW_FORBIDDEN : ONEDRAW_GOES_ON;
    });
    CHECK(questions > 0 && branches.size() == 2 && branches[0].token == 0 && branches[1].token == 1);
#ifdef __cpp_exceptions
    // What a continuation throws arrives, and does not pass through the library.
    struct Refused {
        std::uint32_t token;
    };
    onedraw::Beams refused{onedraw::Params()};
    questions = 0;
    try {
        refused.step({logits[0], 1, 3}, [&](std::size_t, std::uint32_t token) -> onedraw_finish {
            questions++;
            throw Refused{token};
        });
        CHECK(!"an exception");
    } catch (const Refused &thrown) {
        CHECK(thrown.token < 3 && questions == 1);
    }
    fails(ONEDRAW_NOTHING, "nothing", "the search is over: it was finished, or a step of it failed", [&] { refused.finish(); });
#endif
}

}  // namespace

#ifdef WITH_ANOTHER
int another();
#endif

int main() {
#ifdef WITH_ANOTHER
    // The same tests, compiled without exceptions, in this program.
    another();
#endif
    CHECK(onedraw::abi() == ONEDRAW_ABI);
    params();
    samplers();
    batches();
    texts();
    beams();
    std::puts("ok  onedraw.hpp");
    return 0;
}
