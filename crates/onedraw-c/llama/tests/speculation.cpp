// Texts that are written with guesses, beside the same texts without.
#include <algorithm>

#include "comparison.h"
#include "tests.h"

namespace {

const size_t LENGTH = 100;
const size_t GUESSES = 4;

// Guesses that follow a text: at most `GUESSES`.
using Guesser = std::function<Tokens(const Tokens & text, const llama_sampler * smpl)>;

// The tokens that came after the last two where they were last.
Tokens repeated(const Tokens & text, const llama_sampler *) {
    for (size_t place = text.size() - 2; place-- > 0;) {
        if (text[place] == text[text.size() - 2] && text[place + 1] == text.back()) {
            const auto first = text.begin() + static_cast<ptrdiff_t>(place) + 2;
            return Tokens(first, first + std::min<ptrdiff_t>(GUESSES, text.end() - first));
        }
    }
    return {};
}

// A smaller model, which draws with the noise of the target: a copy of its sampler.
class Drafter {
public:
    Drafter(const Model & model, const std::string & json) : context_(model, {}), smpl_(sampler(json)) {}

    Tokens operator()(const Tokens & text, const llama_sampler * target) {
        llama_sampler_copy(target, smpl_.get());
        // What it has read and is still in the text.
        size_t same = 0;
        while (same < read_.size() && same + 1 < text.size() && read_[same] == text[same]) same++;
        context_.cut(static_cast<int32_t>(same));
        read_.resize(same);
        Tokens guesses;
        for (size_t i = same; i < text.size(); i++) feed(text[i], i + 1 == text.size());
        context_.decode();
        for (;;) {
            guesses.push_back(onedraw_llama_sample(context_.get(), smpl_.get(), -1));
            if (guesses.size() == GUESSES) return guesses;
            feed(guesses.back(), true);
            context_.decode();
        }
    }

private:
    void feed(llama_token token, bool wants_row) {
        context_.add(token, static_cast<int32_t>(read_.size()), 0, wants_row);
        read_.push_back(token);
    }

    Context context_;
    llama_sampler_ptr smpl_;
    Tokens read_;
};

struct Count {
    size_t passes = 0, tokens = 0;
};

// Writes a text with guesses beside the one without.
Count compare(const Model & model, Comparison & comparison, const Alone & alone, const std::string & json, const Guesser & guess) {
    Context context(model, {});
    llama_sampler_ptr smpl = sampler(json);
    Tokens text = alone.prompt;
    context.read(text);
    Count count;
    // The first token comes after the prompt; from then on, the last one is read together with the guesses.
    llama_token first = LLAMA_TOKEN_NULL;
    const int32_t last = -1;
    const Row beginning = context.row(last);
    CHECK(onedraw_llama_verify(context.get(), smpl.get(), &last, nullptr, 0, &first) == 1);
    if (!comparison.step(alone, 0, beginning, first)) return count;
    text.push_back(first);
    for (;;) {
        const size_t written = text.size() - alone.prompt.size();
        if (written >= LENGTH) return count;
        Tokens guesses = guess(text, smpl.get());
        std::vector<int32_t> outputs;
        int32_t position = static_cast<int32_t>(text.size()) - 1;
        outputs.push_back(context.add(text.back(), position));
        for (llama_token token : guesses) outputs.push_back(context.add(token, ++position));
        context.decode();
        std::vector<Row> rows;
        for (int32_t output : outputs) rows.push_back(context.row(output));

        Tokens drawn(outputs.size());
        const int32_t n_drawn = onedraw_llama_verify(
            context.get(), smpl.get(), outputs.data(), guesses.data(), static_cast<int32_t>(guesses.size()), drawn.data());
        CHECK(n_drawn >= 1 && static_cast<size_t>(n_drawn) <= drawn.size());
        count.passes++;
        for (size_t i = 0; i < static_cast<size_t>(n_drawn); i++) {
            if (written + i >= LENGTH) return count;
            if (!comparison.step(alone, written + i, rows[i], drawn[i])) return count;
            text.push_back(drawn[i]);
            count.tokens++;
        }
        context.cut(static_cast<int32_t>(text.size()) - 1);
    }
}

void a_row_that_cannot_be_drawn_from(const Model & model) {
    Context context(model, {});
    const Tokens prompt = model.tokens("Once upon a time");
    context.read(prompt);
    const std::string json = R"({"temperature": 0})";
    const llama_token right = onedraw_llama_sample(context.get(), sampler(json).get(), -1);
    const int32_t position = static_cast<int32_t>(prompt.size());
    context.cut(position - 1);
    const int32_t outputs[] = {context.add(prompt.back(), position - 1), 100};
    context.add(right, position);
    context.decode();
    llama_sampler_ptr smpl = sampler(json);
    llama_token drawn[2];
    CHECK(onedraw_llama_verify(context.get(), smpl.get(), outputs, &right, 1, drawn) == 2);
    CHECK(drawn[0] == right && drawn[1] == LLAMA_TOKEN_NULL);
    FAILED("idx", "no logits");
}

}  // namespace

void test_speculation(const Model & model, const Model & drafter, bool exact) {
    a_row_that_cannot_be_drawn_from(model);
    const char * prompts[] = {"Once upon a time", "Tom saw a big", "The little dog", "Lily was"};
    for (const char * sampling : {R"("temperature": 0.7, "top_k": 50, "top_p": 0.9)", R"("temperature": 1)", R"("temperature": 0.8, "repetition_penalty": 1.1, "mirostat": 2)"}) {
        Comparison of_model, of_text;
        Count by_model, by_text;
        size_t texts = 0;
        for (const char * prompt : prompts) {
            const std::string json = "{\"seed\": " + std::to_string(++texts) + ", " + sampling + "}";
            const Alone alone = write_alone(model, {}, prompt, json, LENGTH);
            Drafter draft(drafter, json);
            Count count = compare(model, of_model, alone, json, [&](const Tokens & text, const llama_sampler * smpl) { return draft(text, smpl); });
            by_model.passes += count.passes;
            by_model.tokens += count.tokens;
            count = compare(model, of_text, alone, json, repeated);
            by_text.passes += count.passes;
            by_text.tokens += count.tokens;
        }
        std::printf("{%s}\n", sampling);
        const auto report = [&](const char * what, const Comparison & comparison, const Count & count) {
            comparison.report(what, texts, exact);
            std::printf("    %.2f tokens in a pass\n", static_cast<double>(count.tokens) / static_cast<double>(count.passes));
            CHECK(count.tokens > count.passes);
        };
        report("  with the guesses of a smaller model", of_model, by_model);
        report("  with what the text repeats", of_text, by_text);
    }
}
