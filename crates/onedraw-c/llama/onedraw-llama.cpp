#include "onedraw-llama.h"

#include <cmath>
#include <cstdio>
#include <new>
#include <string>
#include <vector>

namespace {

thread_local onedraw_error last_error{};

// Keeps the words of a call of onedraw.h that failed.
bool done(onedraw_status status, const onedraw_error & error) {
    if (status != ONEDRAW_OK) last_error = error;
    return status == ONEDRAW_OK;
}

// An error of this file.
onedraw_error mistake(const char * argument, const char * message) {
    onedraw_error error{};
    error.status = ONEDRAW_BAD_ARGUMENT;
    std::snprintf(error.kind, sizeof error.kind, "%s", argument);
    int length = std::snprintf(error.message, sizeof error.message, "%s: %s", argument, message);
    error.length = static_cast<uint32_t>(length);
    return error;
}

bool fail(const char * argument, const char * message) {
    last_error = mistake(argument, message);
    return false;
}

// What a llama_sampler of ours holds.
struct State {
    onedraw_sampler * sampler = nullptr;
    // The last draw that was not accepted; `status` says whether there is one. Mirostat learns from it.
    onedraw_sampled drawn{};
    // Why no draw can follow: a token could not be accepted, so the history is not that of the text.
    onedraw_error broken{};
    // The size of the vocabulary; 0 where it was not told.
    size_t vocabulary = 0;

    State() { drawn.status = ONEDRAW_NOTHING; }

    bool is_whole() const { return done(broken.status, broken); }
};

State & state_of(const llama_sampler * smpl) { return *static_cast<State *>(smpl->ctx); }

// The row of an output.
bool row_of(llama_context * ctx, int32_t idx, onedraw_row & row) {
    if (ctx == nullptr) return fail("ctx", "is NULL");
    if (llama_get_sampled_token_ith(ctx, idx) != LLAMA_TOKEN_NULL || llama_get_sampled_logits_ith(ctx, idx) != nullptr ||
        llama_get_sampled_probs_ith(ctx, idx) != nullptr) {
        return fail("ctx", "it samples on its backend, which does not keep to onedraw's draws");
    }
    row = onedraw_row{};
    row.logits = llama_get_logits_ith(ctx, idx);
    row.vocabulary = static_cast<size_t>(llama_vocab_n_tokens(llama_model_get_vocab(llama_get_model(ctx))));
    return row.logits != nullptr || fail("idx", "there are no logits for this output");
}

const char * name(const llama_sampler *) { return "onedraw"; }

void accept(llama_sampler * smpl, llama_token token) {
    // What a failed draw returned.
    if (token == LLAMA_TOKEN_NULL) return;
    State & state = state_of(smpl);
    if (!state.is_whole()) return;
    onedraw_error error;
    // Through its handle the sampler may have moved since the draw.
    size_t position = 0;
    onedraw_sampler_output(state.sampler, nullptr, 0, &position, nullptr);
    const onedraw_sampled & drawn = state.drawn;
    if (token < 0) {
        error = mistake("token", "a negative number was accepted");
    } else if (drawn.status == ONEDRAW_OK && drawn.token == static_cast<uint32_t>(token) && drawn.position == position) {
        onedraw_sampler_accept_sampled(state.sampler, &drawn, &error);
    } else {
        onedraw_sampler_accept(state.sampler, static_cast<uint32_t>(token), &error);
    }
    state.drawn.status = ONEDRAW_NOTHING;
    if (!done(error.status, error)) state.broken = error;
}

// Writes the logits of candidates as a row. A token that is not among them gets none.
bool row_of(const llama_token_data_array & candidates, std::vector<float> & row, bool knows_vocabulary) {
    onedraw_error error;
    onedraw_records records{};
    records.ids = candidates.size > 0 ? &candidates.data->id : nullptr;
    records.logits = candidates.size > 0 ? &candidates.data->logit : nullptr;
    records.count = candidates.size;
    records.stride = sizeof(llama_token_data);
    if (onedraw_row_from_records(&records, row.data(), row.size(), &error) == ONEDRAW_OK) return true;
    if (knows_vocabulary) return done(error.status, error);
    return fail("smpl", "samplers before it left fewer candidates than there are tokens: draw with onedraw_llama_sample, "
                        "or tell the vocabulary with onedraw_llama_set_vocabulary");
}

// Draws from the candidates and tells the place of the drawn one.
bool draw(State & state, const llama_token_data_array & candidates, size_t & place) {
    if (!state.is_whole()) return false;
    // Kept, so that a draw allocates nothing.
    thread_local std::vector<float> logits;
    // The ids of as many candidates as there are tokens are those of all tokens.
    logits.resize(state.vocabulary > 0 ? state.vocabulary : candidates.size);
    if (!row_of(candidates, logits, state.vocabulary > 0)) return false;
    onedraw_row row{};
    row.logits = logits.data();
    row.vocabulary = logits.size();
    onedraw_error error;
    state.drawn.status = ONEDRAW_NOTHING;
    if (!done(onedraw_sampler_peek(state.sampler, &row, 0, &state.drawn, &error), error)) return false;
    const auto token = static_cast<llama_token>(state.drawn.token);
    place = state.drawn.token;
    // Most arrays have every token at its place.
    if (place >= candidates.size || candidates.data[place].id != token) {
        for (place = 0; candidates.data[place].id != token;) place++;
    }
    return true;
}

void apply(llama_sampler * smpl, llama_token_data_array * candidates) {
    size_t place = 0;
    if (draw(state_of(smpl), *candidates, place)) {
        candidates->selected = static_cast<int64_t>(place);
        return;
    }
    // Nothing is selected. Programs abort where no candidate is, so that a candidate says it.
    candidates->selected = -1;
    if (candidates->size == 0) return;
    candidates->data[0] = {LLAMA_TOKEN_NULL, NAN, NAN};
    candidates->size = 1;
    candidates->selected = 0;
}

void reset(llama_sampler * smpl) {
    State & state = state_of(smpl);
    onedraw_error error;
    onedraw_sampler_reset(state.sampler, &error);
    done(error.status, error);
    state.drawn.status = ONEDRAW_NOTHING;
    state.broken = error;
}

llama_sampler * sampler_of(State && state);

llama_sampler * clone(const llama_sampler * smpl) {
    State state = state_of(smpl);
    onedraw_error error;
    // Where it fails, there is a sampler that cannot draw and says why.
    if (!done(onedraw_sampler_clone(state.sampler, &state.sampler, &error), error)) {
        state.sampler = nullptr;
        state.broken = error;
    }
    return sampler_of(std::move(state));
}

void free_state(llama_sampler * smpl) {
    if (smpl->ctx == nullptr) return;
    onedraw_sampler_free(state_of(smpl).sampler, nullptr);
    delete &state_of(smpl);
}

// The functions, by name, because later versions of llama.cpp have more of them. Without those of backend sampling
// llama.cpp runs a sampler on the CPU.
llama_sampler_i & functions() {
    static llama_sampler_i functions = [] {
        llama_sampler_i functions{};
        functions.name = name;
        functions.accept = accept;
        functions.apply = apply;
        functions.reset = reset;
        functions.clone = clone;
        functions.free = free_state;
        return functions;
    }();
    return functions;
}

llama_sampler * sampler_of(State && state) { return llama_sampler_init(&functions(), new State(std::move(state))); }

bool is_ours(const llama_sampler * smpl) { return smpl != nullptr && smpl->iface == &functions(); }

// The sampler of ours that selects the token: this one, or the last of a chain. `*is_alone`: no other one is before it.
State * selecting(const llama_sampler * smpl, bool * is_alone) {
    if (is_ours(smpl)) {
        *is_alone = true;
        return &state_of(smpl);
    }
    // The chain stays as it is; llama.h asks for one that may change.
    auto * chain = const_cast<llama_sampler *>(smpl);
    const bool is_chain = llama_sampler_chain_get(chain, -1) != nullptr;
    const int32_t count = is_chain ? llama_sampler_chain_n(chain) : 0;
    const llama_sampler * last = count > 0 ? llama_sampler_chain_get(chain, count - 1) : nullptr;
    if (!is_ours(last)) {
        fail("smpl", "is not a sampler of onedraw's, nor a chain that ends with one");
        return nullptr;
    }
    *is_alone = count == 1;
    return &state_of(last);
}

// Draws from a row and accepts.
llama_token sample(State & state, const onedraw_row & row) {
    if (!state.is_whole()) return LLAMA_TOKEN_NULL;
    onedraw_error error;
    onedraw_sampled sampled;
    state.drawn.status = ONEDRAW_NOTHING;
    if (!done(onedraw_sampler_sample(state.sampler, &row, &sampled, &error), error)) return LLAMA_TOKEN_NULL;
    return static_cast<llama_token>(sampled.token);
}

// Draws through the other samplers of a chain and accepts.
llama_token sample_through(llama_sampler * chain, State & state, const onedraw_row & row) {
    state.vocabulary = row.vocabulary;
    thread_local std::vector<llama_token_data> records;
    const auto * logits = static_cast<const float *>(row.logits);
    records.resize(row.vocabulary);
    for (size_t i = 0; i < row.vocabulary; i++) records[i] = {static_cast<llama_token>(i), logits[i], 0.0f};
    llama_token_data_array candidates{records.data(), records.size(), -1, false};
    llama_sampler_apply(chain, &candidates);
    if (candidates.selected < 0) {
        fail("smpl", "the samplers before left no candidate");
        return LLAMA_TOKEN_NULL;
    }
    const llama_token token = candidates.data[candidates.selected].id;
    // The others must not see a token that does not exist.
    if (token != LLAMA_TOKEN_NULL) llama_sampler_accept(chain, token);
    return token;
}

}  // namespace

llama_sampler * llama_sampler_init_onedraw(const char * json) {
    onedraw_error error;
    onedraw_params * params = nullptr;
    if (!done(onedraw_params_from_json(json, &params, &error), error)) return nullptr;
    State state;
    const bool made = done(onedraw_sampler_new(params, &state.sampler, &error), error);
    onedraw_params_free(params, nullptr);
    return made ? sampler_of(std::move(state)) : nullptr;
}

llama_token onedraw_llama_sample(llama_context * ctx, llama_sampler * smpl, int32_t idx) {
    bool is_alone = false;
    State * state = selecting(smpl, &is_alone);
    onedraw_row row;
    if (state == nullptr || !row_of(ctx, idx, row)) return LLAMA_TOKEN_NULL;
    return is_alone ? sample(*state, row) : sample_through(smpl, *state, row);
}

llama_token onedraw_llama_sample_masked(
        llama_context * ctx, llama_sampler * smpl, int32_t idx, const uint32_t * mask, size_t words) {
    bool is_alone = false;
    State * state = selecting(smpl, &is_alone);
    onedraw_row row;
    if (state == nullptr || !row_of(ctx, idx, row)) return LLAMA_TOKEN_NULL;
    if (!is_alone) {
        fail("smpl", "with a mask, no other sampler may be in the chain");
        return LLAMA_TOKEN_NULL;
    }
    if (mask == nullptr || words > UINT32_MAX) {
        fail("mask", "must lead to at least (tokens + 31) / 32 words");
        return LLAMA_TOKEN_NULL;
    }
    row.mask = mask;
    row.mask_words = static_cast<uint32_t>(words);
    return sample(*state, row);
}

int32_t onedraw_llama_verify(
        llama_context * ctx, llama_sampler * smpl, const int32_t * idx, const llama_token * guesses, int32_t n_guesses,
        llama_token * drawn) {
    if (idx == nullptr || drawn == nullptr || n_guesses < 0 || (n_guesses > 0 && guesses == nullptr)) {
        fail("guesses", "idx, drawn or guesses is NULL, or n_guesses is negative");
        return 0;
    }
    // Draws are keyed by their positions, so verification is to draw on, as long as guesses are the drawn tokens.
    for (int32_t i = 0;; i++) {
        drawn[i] = onedraw_llama_sample(ctx, smpl, idx[i]);
        if (drawn[i] == LLAMA_TOKEN_NULL || i >= n_guesses || drawn[i] != guesses[i]) return i + 1;
    }
}

bool onedraw_llama_set_prompt(llama_sampler * smpl, const llama_token * tokens, size_t n_tokens) {
    bool is_alone = false;
    State * state = selecting(smpl, &is_alone);
    if (state == nullptr) return false;
    if (tokens == nullptr && n_tokens > 0) return fail("tokens", "is NULL");
    // A negative number becomes a large one, which no vocabulary has: the draw says so.
    std::vector<uint32_t> ids(tokens, tokens + n_tokens);
    onedraw_error error;
    return done(onedraw_sampler_set_prompt(state->sampler, ids.data(), ids.size(), &error), error);
}

bool onedraw_llama_set_vocabulary(llama_sampler * smpl, size_t n_vocab) {
    bool is_alone = false;
    State * state = selecting(smpl, &is_alone);
    if (state != nullptr) state->vocabulary = n_vocab;
    return state != nullptr;
}

onedraw_sampler * onedraw_llama_handle(const llama_sampler * smpl) {
    bool is_alone = false;
    State * state = selecting(smpl, &is_alone);
    return state == nullptr ? nullptr : state->sampler;
}

onedraw_vocabulary * onedraw_llama_vocabulary(const llama_vocab * vocab) {
    if (vocab == nullptr) {
        fail("vocab", "is NULL");
        return nullptr;
    }
    std::string bytes;
    std::vector<size_t> offsets{0};
    std::vector<uint32_t> ending, special;
    for (llama_token token = 0; token < llama_vocab_n_tokens(vocab); token++) {
        char piece[256];
        int32_t length = llama_token_to_piece(vocab, token, piece, sizeof piece, 0, false);
        if (length >= 0) {
            bytes.append(piece, static_cast<size_t>(length));
        } else {
            std::string longer(static_cast<size_t>(-length), '\0');
            llama_token_to_piece(vocab, token, &longer[0], -length, 0, false);
            bytes += longer;
        }
        offsets.push_back(bytes.size());
        if (llama_vocab_is_eog(vocab, token)) ending.push_back(static_cast<uint32_t>(token));
        else if (llama_vocab_is_control(vocab, token)) special.push_back(static_cast<uint32_t>(token));
    }
    onedraw_error error;
    onedraw_vocabulary * vocabulary = nullptr;
    onedraw_vocabulary_new(
        reinterpret_cast<const uint8_t *>(bytes.data()), offsets.data(), offsets.size() - 1, ending.data(), ending.size(),
        special.data(), special.size(), &vocabulary, &error);
    return done(error.status, error) ? vocabulary : nullptr;
}

const onedraw_error * onedraw_llama_error(void) { return &last_error; }
