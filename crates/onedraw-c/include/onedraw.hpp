// onedraw for C++17: onedraw.h with owners, spans and exceptions. Header-only.
//
// Every handle of C is a class here that owns it and can be moved but not copied; clone() makes a second one. An error
// is an onedraw::Error, with the library's words. Without exceptions (-fno-exceptions) an error writes its words to
// standard error and ends the program; a program that must go on after errors uses onedraw.h. Files with and without
// exceptions may be in one program. Threads are as in onedraw.h: different objects may be used at the same time, one object
// by one thread at a time.

#ifndef ONEDRAW_HPP
#define ONEDRAW_HPP

#include <exception>
#include <limits>
#include <optional>
#include <utility>

#include "onedraw_core.hpp"

namespace onedraw {
inline namespace ONEDRAW_INLINE_NAMESPACE {

/// One row of logits, which is read in place, and the mask of a grammar if there is one.
class Row : public onedraw_row {
public:
    /// A vector or an array of floats, or a Span.
    template <class Logits, class = std::enable_if_t<std::is_constructible_v<Span<const float>, Logits &> &&
                                                     !std::is_base_of_v<Row, std::decay_t<Logits>>>>
    Row(const Logits &logits, Span<const std::uint32_t> mask = {}) noexcept : Row(Span<const float>(logits), mask, 0) {}

    /// Logits of any type.
    Row(const void *logits, std::size_t vocabulary, Dtype dtype, Span<const std::uint32_t> mask = {}) noexcept
        : onedraw_row{logits, vocabulary, static_cast<onedraw_dtype>(dtype), static_cast<std::uint32_t>(mask.size()),
                      mask.size() ? mask.data() : nullptr} {}

private:
    Row(Span<const float> logits, Span<const std::uint32_t> mask, int) noexcept
        : Row(logits.data(), logits.size(), Dtype::f32, mask) {}
};

/// Several rows: in one buffer, their beginnings `stride` logits apart (0: as many as a row has), or anywhere.
class Rows : public onedraw_rows {
public:
    /// Floats in one buffer.
    Rows(const float *logits, std::size_t count, std::size_t vocabulary, std::size_t stride = 0) noexcept
        : Rows(logits, Dtype::f32, count, vocabulary, stride) {}

    /// Logits of any type in one buffer.
    Rows(const void *logits, Dtype dtype, std::size_t count, std::size_t vocabulary, std::size_t stride = 0) noexcept
        : onedraw_rows{logits, count, vocabulary, stride, static_cast<onedraw_dtype>(dtype), 0, nullptr, nullptr} {}

    /// An array of rows of floats.
    template <std::size_t Count, std::size_t Vocabulary>
    Rows(const float (&logits)[Count][Vocabulary]) noexcept : Rows(logits[0], Count, Vocabulary) {}

    /// A pointer to each row of floats. The pointers, too, must live as long as this does.
    Rows(Span<const float *const> rows, std::size_t vocabulary) noexcept
        : Rows(reinterpret_cast<const void *const *>(rows.data()), rows.size(), vocabulary, Dtype::f32) {}

    /// A pointer to each row of logits of any type.
    Rows(Span<const void *const> rows, Dtype dtype, std::size_t vocabulary) noexcept
        : Rows(rows.data(), rows.size(), vocabulary, dtype) {}

    /// The same rows with a mask for each, or nullptr for a row without one.
    Rows with_masks(const std::uint32_t *const *masks, std::uint32_t words) const noexcept {
        Rows rows = *this;
        rows.masks = masks;
        rows.mask_words = words;
        return rows;
    }

private:
    Rows(const void *const *pointers, std::size_t count, std::size_t vocabulary, Dtype dtype) noexcept
        : onedraw_rows{nullptr, count, vocabulary, 0, static_cast<onedraw_dtype>(dtype), 0, nullptr, pointers} {}
};

/// Writes records that have an id and a logit, in any order, as a row of `row.size()` logits: see
/// `onedraw_row_from_records`. As in `row_from_records(candidates, &Candidate::id, &Candidate::logit, row)`.
template <class Records, class Record>
void row_from_records(const Records &records, std::int32_t Record::*id, float Record::*logit, Span<float> row) {
    const Record *first = records.data();
    std::size_t count = records.size();
    onedraw_records all{count ? &(first->*id) : nullptr, count ? &(first->*logit) : nullptr, count, sizeof(Record)};
    detail::check([&](auto error) { return onedraw_row_from_records(&all, row.data(), row.size(), error); });
}

/// Sampling parameters.
class Params : public detail::Owner<onedraw_params, onedraw_params_free> {
public:
    /// All defaults.
    Params() : Owner(make(onedraw_params_new)) {}

    /// Reads a JSON object, such as {"temperature": 0.8, "seed": 42}.
    static Params from_json(const std::string &json) {
        return Params(make([&](auto out, auto error) { return onedraw_params_from_json(detail::text_of(json, "json"), out, error); }));
    }

    /// `creative`, `precise`, `balanced` or `deterministic`.
    static Params preset(const std::string &name) {
        return Params(make([&](auto out, auto error) { return onedraw_params_preset(detail::text_of(name, "name"), out, error); }));
    }

    /// The settings of another system, and a line for each that was lost or changed. Without a source it is recognised.
    static std::pair<Params, std::string> import_settings(const std::string &json, const char *source = nullptr) {
        onedraw_params *handle = nullptr;
        std::string notes = detail::text([&](char *text, std::size_t room, std::size_t *length, onedraw_error *error) {
            return onedraw_params_import(detail::text_of(json, "json"), source, &handle, text, room, length, error);
        });
        return {Params(handle), notes};
    }

    /// Sets a parameter by its name.
    Params &set(const char *name, double value) {
        return done([&](auto error) { return onedraw_params_set_number(get(), name, value, error); });
    }
    template <class Integer, std::enable_if_t<std::is_integral_v<Integer> && !std::is_same_v<Integer, bool>, int> = 0>
    Params &set(const char *name, Integer value) {
        if constexpr (std::is_unsigned_v<Integer> && sizeof(Integer) >= sizeof(std::int64_t)) {
            constexpr auto largest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
            if (value > largest) detail::bad_argument(name, "is larger than 9223372036854775807; for a seed use seed()");
        }
        return done([&](auto error) { return onedraw_params_set_integer(get(), name, static_cast<std::int64_t>(value), error); });
    }
    Params &set(const char *name, bool value) {
        return done([&](auto error) { return onedraw_params_set_flag(get(), name, value, error); });
    }
    Params &set(const char *name, const char *value) {
        return done([&](auto error) { return onedraw_params_set_text(get(), name, value, error); });
    }
    Params &set(const char *name, const std::string &value) { return set(name, detail::text_of(value, name)); }
    Params &set(const char *name, Span<const std::uint32_t> ids) {
        return done([&](auto error) { return onedraw_params_set_ids(get(), name, ids.data(), ids.size(), error); });
    }
    Params &set(const char *name, const std::vector<std::string> &values) {
        std::vector<const char *> texts;
        for (const std::string &value : values) texts.push_back(detail::text_of(value, name));
        return done([&](auto error) { return onedraw_params_set_texts(get(), name, texts.data(), texts.size(), error); });
    }
    /// Sets any parameter from JSON.
    Params &set_json(const char *name, const std::string &json) {
        return done([&](auto error) { return onedraw_params_set_json(get(), name, detail::text_of(json, name), error); });
    }
    Params &seed(std::uint64_t seed) {
        return done([&](auto error) { return onedraw_params_set_seed(get(), seed, error); });
    }

    /// Checks every parameter.
    void check() const {
        detail::check([&](auto error) { return onedraw_params_check(get(), error); });
    }

    std::string to_json() const {
        return detail::text([&](auto... arguments) { return onedraw_params_to_json(get(), arguments...); });
    }

private:
    using Owner::Owner;

    template <class Call>
    Params &done(Call call) {
        detail::check(call);
        return *this;
    }
};

/// The tokens of a model, prepared for grammars.
class Vocabulary : public detail::Owner<onedraw_vocabulary, onedraw_vocabulary_free> {
public:
    /// The bytes of every token, from id 0 on, and the ids that end a text; `special` tokens are marks and not text.
    Vocabulary(const std::vector<std::string> &tokens, Span<const std::uint32_t> eos, Span<const std::uint32_t> special = {})
        : Owner(made(tokens, eos, special)) {}

private:
    static onedraw_vocabulary *made(const std::vector<std::string> &tokens, Span<const std::uint32_t> eos,
                                    Span<const std::uint32_t> special) {
        std::string bytes;
        std::vector<std::size_t> offsets{0};
        for (const std::string &token : tokens) offsets.push_back((bytes += token).size());
        return make([&](auto out, auto error) {
            return onedraw_vocabulary_new(reinterpret_cast<const std::uint8_t *>(bytes.data()), offsets.data(), tokens.size(),
                                          eos.data(), eos.size(), special.data(), special.size(), out, error);
        });
    }
};

/// What a text must keep to.
class Grammar : public detail::Owner<onedraw_grammar, onedraw_grammar_free> {
public:
    /// `kind` is `json_schema`, `compact_json_schema`, `regex`, `choices` (a JSON list) or `grammar` (Lark).
    Grammar(const Vocabulary &vocabulary, const char *kind, const std::string &text)
        : Owner(make([&](auto out, auto error) { return onedraw_grammar_new(vocabulary.get(), kind, detail::text_of(text, "text"), out, error); })) {}
};

/// A text that follows a grammar.
class Matcher : public detail::Owner<onedraw_matcher, onedraw_matcher_free> {
public:
    explicit Matcher(const Grammar &grammar)
        : Owner(make([&](auto out, auto error) { return onedraw_matcher_new(grammar.get(), out, error); })) {}

    Matcher clone() const {
        return Matcher(make([&](auto out, auto error) { return onedraw_matcher_clone(get(), out, error); }));
    }

    /// The tokens that may come next, for a Row.
    std::vector<std::uint32_t> mask() {
        return detail::values<std::uint32_t>([&](auto... arguments) { return onedraw_matcher_mask(get(), arguments...); });
    }
    /// The tokens that must come next.
    std::vector<std::uint32_t> forced() {
        return detail::values<std::uint32_t>([&](auto... arguments) { return onedraw_matcher_forced(get(), arguments...); });
    }
    void accept(std::uint32_t token) {
        detail::check([&](auto error) { return onedraw_matcher_accept(get(), token, error); });
    }
    void rollback(std::size_t tokens) {
        detail::check([&](auto error) { return onedraw_matcher_rollback(get(), tokens, error); });
    }
    bool may_end() {
        std::int32_t may_end = 0;
        detail::check([&](auto error) { return onedraw_matcher_may_end(get(), &may_end, error); });
        return may_end != 0;
    }

private:
    using Owner::Owner;
};

/// What became of guesses.
struct Verdict {
    /// The numbers of the guesses that hold.
    std::vector<std::size_t> path;
    /// Their tokens, and the one after them, unless there is an error.
    std::vector<Sampled> sampled;
    /// Why the row after the guesses that hold cannot be drawn from; nothing if it can.
    std::optional<Error> error;
};

namespace detail {

/// Verifies guesses with a function of C.
template <class Call>
Verdict verify(Span<const std::uint32_t> guesses, Span<const std::int32_t> parents, const Rows &rows, Matcher *matcher, Call call) {
    if (parents.size() != 0 && parents.size() != guesses.size()) {
        bad_argument("parents", "there must be one for each guess, or none");
    }
    Verdict verdict;
    std::size_t room = guesses.size() + 1, drawn = 0;
    verdict.path.resize(room);
    verdict.sampled.resize(room);
    onedraw_draft draft{guesses.data(), parents.size() ? parents.data() : nullptr, guesses.size()};
    onedraw_error error;
    onedraw_matcher *follows = matcher ? matcher->get() : nullptr;
    call(&draft, &rows, follows, verdict.sampled.data(), verdict.path.data(), room, &drawn, &error);
    if (error.status == ONEDRAW_BAD_ROW) {
        verdict.error.emplace(error);
    } else if (error.status != ONEDRAW_OK) {
        fail(error);
    }
    verdict.sampled.resize(drawn);
    verdict.path.resize(verdict.error ? drawn : drawn - 1);
    return verdict;
}

}  // namespace detail

/// Tokens that could have been drawn.
struct Kept {
    onedraw_kept summary;
    std::vector<std::uint32_t> ids;
};

/// Draws the tokens of one sequence.
class Sampler : public detail::Owner<onedraw_sampler, onedraw_sampler_free> {
public:
    explicit Sampler(const Params &params)
        : Owner(make([&](auto out, auto error) { return onedraw_sampler_new(params.get(), out, error); })) {}

    /// The sampler of one of the `n` sequences.
    Sampler(const Params &params, std::uint32_t number)
        : Owner(make([&](auto out, auto error) { return onedraw_sampler_new_sequence(params.get(), number, out, error); })) {}

    /// The sampler that save() wrote.
    static Sampler load(const std::string &json) {
        return Sampler(make([&](auto out, auto error) { return onedraw_sampler_load(detail::text_of(json, "json"), out, error); }));
    }

    Sampler clone() const {
        return Sampler(make([&](auto out, auto error) { return onedraw_sampler_clone(get(), out, error); }));
    }

    /// Draws the next token and appends it.
    Sampled sample(const Row &row) {
        return drawn([&](auto out, auto error) { return onedraw_sampler_sample(get(), &row, out, error); });
    }

    /// Draws `ahead` positions after the next one, and leaves the history as it is.
    Sampled peek(const Row &row, std::uint32_t ahead = 0) {
        return drawn([&](auto out, auto error) { return onedraw_sampler_peek(get(), &row, ahead, out, error); });
    }

    /// The token at the share `uniform` of the kept mass; appends it.
    Sampled sample_uniform(const Row &row, double uniform) {
        return drawn([&](auto out, auto error) { return onedraw_sampler_sample_uniform(get(), &row, uniform, out, error); });
    }

    /// What the last draw told, or the last verify() of one of its tokens, where `logprobs` is set.
    std::vector<TokenLogprob> logprobs(std::size_t number = 0) const {
        return detail::values<TokenLogprob>([&](auto... arguments) { return onedraw_sampler_logprobs(get(), number, arguments...); });
    }

    /// The kept set of the last draw, or of a token of the last verify(), where `kept` is set.
    Kept kept(std::size_t number = 0) const {
        Kept kept{};
        kept.ids = detail::values<std::uint32_t>(
            [&](auto... arguments) { return onedraw_sampler_kept(get(), number, &kept.summary, arguments...); });
        return kept;
    }

    /// Every token that can be drawn, in order.
    std::vector<Probability> distribution(const Row &row) {
        return detail::values<Probability>(
            [&](auto... arguments) { return onedraw_sampler_distribution(get(), &row, arguments...); }, row.vocabulary);
    }

    /// What each stage does, as JSON.
    std::string explain(const Row &row, std::size_t listed = 10) {
        return json([&](auto length, auto error) { return onedraw_sampler_explain(get(), &row, listed, length, error); });
    }

    /// The logprobs of the prompt, as JSON.
    std::string prompt_logprobs(const Rows &rows) {
        return json([&](auto length, auto error) { return onedraw_sampler_prompt_logprobs(get(), &rows, length, error); });
    }

    void accept(std::uint32_t token) {
        detail::check([&](auto error) { return onedraw_sampler_accept(get(), token, error); });
    }
    void accept(const Sampled &sampled) {
        detail::check([&](auto error) { return onedraw_sampler_accept_sampled(get(), &sampled, error); });
    }
    void rewind(std::size_t length) {
        detail::check([&](auto error) { return onedraw_sampler_rewind(get(), length, error); });
    }
    void take_back(const Progress &progress) {
        detail::check([&](auto error) {
            return onedraw_sampler_take_back(get(), progress.rewind_length, progress.rewind_token, error);
        });
    }

    /// Replaces the prompt. The output stays.
    void set_prompt(Span<const std::uint32_t> tokens) {
        detail::check([&](auto error) { return onedraw_sampler_set_prompt(get(), tokens.data(), tokens.size(), error); });
    }
    /// Makes the sampler what it was when it was made or loaded, with the same seed.
    void reset() {
        detail::check([&](auto error) { return onedraw_sampler_reset(get(), error); });
    }

    /// Verifies guesses exactly; row 0 is the row after the text, row i + 1 that after guess i. Without parents they are
    /// a chain. A row that cannot be drawn from is told in the verdict. Append the tokens that you use with accept().
    Verdict verify(Span<const std::uint32_t> guesses, const Rows &rows, Span<const std::int32_t> parents = {},
                   Matcher *matcher = nullptr) {
        return detail::verify(guesses, parents, rows, matcher, [&](auto... arguments) { return onedraw_sampler_verify(get(), arguments...); });
    }

    std::vector<std::uint32_t> output() const {
        return detail::values<std::uint32_t>([&](auto... arguments) { return onedraw_sampler_output(get(), arguments...); });
    }
    std::uint64_t seed() const {
        std::uint64_t seed = 0;
        detail::check([&](auto error) { return onedraw_sampler_seed(get(), &seed, error); });
        return seed;
    }
    std::string save() const {
        return detail::text([&](auto... arguments) { return onedraw_sampler_save(get(), arguments...); });
    }

private:
    using Owner::Owner;

    template <class Call>
    std::string json(Call call) {
        return detail::found(call, [&](auto... arguments) { return onedraw_sampler_json(get(), arguments...); });
    }

    template <class Call>
    static Sampled drawn(Call call) {
        Sampled sampled{};
        detail::check([&](auto error) { return call(&sampled, error); });
        return sampled;
    }
};

/// Finds where a text ends.
class StopMatcher : public detail::Owner<onedraw_stop, onedraw_stop_free> {
public:
    explicit StopMatcher(const Params &params)
        : Owner(make([&](auto out, auto error) { return onedraw_stop_new(params.get(), out, error); })) {}

    StopMatcher clone() const {
        return StopMatcher(make([&](auto out, auto error) { return onedraw_stop_clone(get(), out, error); }));
    }

    /// Takes a token and its bytes; appends what may be shown now to `shown`.
    Progress push(std::uint32_t token, const std::string &bytes, std::string &shown) {
        Progress progress{};
        detail::check([&](auto error) {
            return onedraw_stop_push(get(), token, reinterpret_cast<const std::uint8_t *>(bytes.data()), bytes.size(), &progress, error);
        });
        append(progress.shown, shown);
        return progress;
    }

    /// Ends the text; appends what was held back to `shown`.
    void finish(std::string &shown) {
        std::size_t length = 0;
        detail::check([&](auto error) { return onedraw_stop_finish(get(), &length, error); });
        append(length, shown);
    }

private:
    using Owner::Owner;

    void append(std::size_t length, std::string &shown) {
        std::size_t before = shown.size();
        shown.resize(before + length);
        detail::check([&](auto error) {
            return onedraw_stop_text(get(), reinterpret_cast<std::uint8_t *>(&shown[before]), length, &length, error);
        });
    }
};

/// Many sequences.
class Batch : public detail::Owner<onedraw_batch, onedraw_batch_free> {
public:
    /// Draws on so many threads; 0: one for each core.
    explicit Batch(std::size_t threads = 1)
        : Owner(make([&](auto out, auto error) { return onedraw_batch_new(threads, out, error); })) {}

    Sequence add(const Params &params) {
        return named([&](auto out, auto error) { return onedraw_batch_add(get(), params.get(), out, error); });
    }
    /// All `n` sequences of the parameters.
    std::vector<Sequence> add_all(const Params &params) {
        return detail::values<Sequence>([&](auto... arguments) { return onedraw_batch_add_all(get(), params.get(), arguments...); });
    }
    Sequence fork(Sequence sequence) {
        return named([&](auto out, auto error) { return onedraw_batch_fork(get(), sequence, out, error); });
    }
    Sequence load(const std::string &json) {
        return named([&](auto out, auto error) { return onedraw_batch_load(get(), detail::text_of(json, "json"), out, error); });
    }
    void remove(Sequence sequence) {
        detail::check([&](auto error) { return onedraw_batch_remove(get(), sequence, error); });
    }
    std::size_t size() const {
        std::size_t count = 0;
        detail::check([&](auto error) { return onedraw_batch_count(get(), &count, error); });
        return count;
    }

    /// Draws a token from each row and appends it. A bad row has another status than `ONEDRAW_OK`; see row_error().
    std::vector<Sampled> sample(Span<const Sequence> sequences, const Rows &rows) {
        return drawn(sequences, rows, [&](auto out, auto error) { return onedraw_batch_sample(get(), sequences.data(), &rows, out, error); });
    }
    std::vector<Sampled> peek(Span<const Sequence> sequences, const Rows &rows, std::uint32_t ahead = 0) {
        return drawn(sequences, rows, [&](auto out, auto error) { return onedraw_batch_peek(get(), sequences.data(), &rows, ahead, out, error); });
    }

    /// Why a row of the last call was not drawn from; nothing if it was.
    std::optional<Error> row_error(std::size_t row) const {
        onedraw_error of_row;
        detail::check([&](auto error) { return onedraw_batch_row_error(get(), row, &of_row, error); });
        if (of_row.status == ONEDRAW_OK) return std::nullopt;
        return Error(of_row);
    }
    std::vector<TokenLogprob> logprobs(std::size_t row) const {
        return detail::values<TokenLogprob>([&](auto... arguments) { return onedraw_batch_logprobs(get(), row, arguments...); });
    }
    Kept kept(std::size_t row) const {
        Kept kept{};
        kept.ids = detail::values<std::uint32_t>(
            [&](auto... arguments) { return onedraw_batch_kept(get(), row, &kept.summary, arguments...); });
        return kept;
    }
    std::vector<Probability> distribution(Sequence sequence, const Row &row) {
        return detail::values<Probability>(
            [&](auto... arguments) { return onedraw_batch_distribution(get(), sequence, &row, arguments...); }, row.vocabulary);
    }
    std::string explain(Sequence sequence, const Row &row, std::size_t listed = 10) {
        return detail::found([&](auto length, auto error) { return onedraw_batch_explain(get(), sequence, &row, listed, length, error); },
                             [&](auto... arguments) { return onedraw_batch_json(get(), arguments...); });
    }
    /// The first `count` tokens of the race: what a drafter guesses.
    std::vector<Runner> runners(Sequence sequence, const Row &row, std::size_t count) {
        return detail::values<Runner>(
            [&](auto... arguments) { return onedraw_batch_runners(get(), sequence, &row, arguments...); }, count);
    }

    /// Verifies guesses exactly; row 0 is the row after the text, row i + 1 that after guess i. Without parents they are
    /// a chain. A row that cannot be drawn from is told in the verdict. Append the tokens that you use with accept().
    Verdict verify(Sequence sequence, Span<const std::uint32_t> guesses, const Rows &rows, Span<const std::int32_t> parents = {},
                   Matcher *matcher = nullptr) {
        return detail::verify(guesses, parents, rows, matcher,
                              [&](auto... arguments) { return onedraw_batch_verify(get(), sequence, arguments...); });
    }

    void accept(Sequence sequence, std::uint32_t token) {
        detail::check([&](auto error) { return onedraw_batch_accept(get(), sequence, token, error); });
    }
    void accept(Sequence sequence, const Sampled &sampled) {
        detail::check([&](auto error) { return onedraw_batch_accept_sampled(get(), sequence, &sampled, error); });
    }
    void rewind(Sequence sequence, std::size_t length) {
        detail::check([&](auto error) { return onedraw_batch_rewind(get(), sequence, length, error); });
    }
    void take_back(Sequence sequence, const Progress &progress) {
        detail::check([&](auto error) {
            return onedraw_batch_take_back(get(), sequence, progress.rewind_length, progress.rewind_token, error);
        });
    }
    /// Replaces the prompt of a sequence. The output stays.
    void set_prompt(Sequence sequence, Span<const std::uint32_t> tokens) {
        detail::check([&](auto error) { return onedraw_batch_set_prompt(get(), sequence, tokens.data(), tokens.size(), error); });
    }
    /// Makes a sequence what it was when it was added or loaded, with the same seed.
    void reset(Sequence sequence) {
        detail::check([&](auto error) { return onedraw_batch_reset(get(), sequence, error); });
    }
    std::vector<std::uint32_t> output(Sequence sequence) const {
        return detail::values<std::uint32_t>([&](auto... arguments) { return onedraw_batch_output(get(), sequence, arguments...); });
    }
    std::uint64_t seed(Sequence sequence) const {
        std::uint64_t seed = 0;
        detail::check([&](auto error) { return onedraw_batch_seed(get(), sequence, &seed, error); });
        return seed;
    }
    std::string save(Sequence sequence) const {
        return detail::text([&](auto... arguments) { return onedraw_batch_save(get(), sequence, arguments...); });
    }

private:
    template <class Call>
    static Sequence named(Call call) {
        Sequence sequence = 0;
        detail::check([&](auto error) { return call(&sequence, error); });
        return sequence;
    }

    template <class Call>
    std::vector<Sampled> drawn(Span<const Sequence> sequences, const Rows &rows, Call call) {
        if (sequences.size() != rows.count) detail::bad_argument("rows", "there must be one for each sequence");
        std::vector<Sampled> sampled(rows.count);
        onedraw_error error;
        onedraw_status status = call(sampled.data(), &error);
        if (status != ONEDRAW_OK && status != ONEDRAW_BAD_ROW && status != ONEDRAW_BAD_SEQUENCE) detail::fail(error);
        return sampled;
    }
};

/// A text that beams found.
struct Hypothesis {
    onedraw_hypothesis text;
    std::vector<std::uint32_t> tokens;
};

/// Beam search, and beams that are drawn.
class Beams : public detail::Owner<onedraw_beams, onedraw_beams_free> {
public:
    /// `settings` is a JSON object; see `onedraw_beams_new`.
    explicit Beams(const Params &params, const std::string &settings = "{}")
        : Owner(make([&](auto out, auto error) { return onedraw_beams_new(params.get(), detail::text_of(settings, "settings"), out, error); })) {}

    /// The number of rows that the next step needs.
    std::size_t size() const { return count().first; }
    bool is_done() const { return count().second; }
    std::vector<std::uint32_t> tokens(std::size_t beam) const {
        return detail::values<std::uint32_t>([&](auto... arguments) { return onedraw_beams_tokens(get(), beam, arguments...); });
    }

    /// Adds one token to every beam; returns where the beams of the next step come from.
    std::vector<Branch> step(const Rows &rows) { return branches(rows, nullptr, nullptr); }

    /// The same, where `continuation(beam, token)` says what a token does to the text of a beam: see
    /// `onedraw_continuation`. What it throws leaves step(), and then the search is over.
    template <class Continuation>
    std::vector<Branch> step(const Rows &rows, Continuation continuation) {
        Asked<Continuation> asked{continuation, {}};
#if ONEDRAW_EXCEPTIONS
        try {
            return branches(rows, Asked<Continuation>::call, &asked);
        } catch (const Error &) {
            if (asked.thrown) std::rethrow_exception(asked.thrown);
            throw;
        }
#else
        return branches(rows, Asked<Continuation>::call, &asked);
#endif
    }

    /// Ends the search and returns the texts, the best first.
    std::vector<Hypothesis> finish() {
        std::size_t count = 0;
        detail::check([&](auto error) { return onedraw_beams_finish(get(), &count, error); });
        std::vector<Hypothesis> found(count);
        for (std::size_t i = 0; i < count; i++) {
            found[i].tokens = detail::values<std::uint32_t>(
                [&](auto... arguments) { return onedraw_beams_text(get(), i, &found[i].text, arguments...); });
        }
        return found;
    }

private:
    /// What a step asks, and what that threw, which must not pass through the library.
    template <class Continuation>
    struct Asked {
        Continuation &continuation;
        std::exception_ptr thrown;

        static onedraw_finish call(void *context, std::size_t beam, std::uint32_t token) {
            auto &asked = *static_cast<Asked *>(context);
#if ONEDRAW_EXCEPTIONS
            try {
                return asked.continuation(beam, token);
            } catch (...) {
                asked.thrown = std::current_exception();
                // No answer, so that the step fails.
                return std::numeric_limits<onedraw_finish>::max();
            }
#else
            return asked.continuation(beam, token);
#endif
        }
    };

    std::vector<Branch> branches(const Rows &rows, onedraw_continuation continuation, void *context) {
        // Asked for as many as there may be, which changes nothing, and then for them.
        return detail::values<Branch>(
            [&](auto... arguments) { return onedraw_beams_step(get(), &rows, continuation, context, arguments...); });
    }

    std::pair<std::size_t, bool> count() const {
        std::size_t count = 0;
        std::int32_t is_done = 0;
        detail::check([&](auto error) { return onedraw_beams_count(get(), &count, &is_done, error); });
        return {count, is_done != 0};
    }
};

}  // inline namespace
}  // namespace onedraw

#undef ONEDRAW_EXCEPTIONS
#undef ONEDRAW_INLINE_NAMESPACE

#endif
