// What the tests share: checks, a model, and texts that are written with it.
#ifndef SUPPORT_H
#define SUPPORT_H

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "llama-cpp.h"
#include "onedraw-llama.h"

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            std::exit(1);                                                           \
        }                                                                           \
    } while (0)

// The last error is of this kind and has these words.
#define FAILED(of_kind, words)                                                      \
    do {                                                                            \
        const onedraw_error * error = onedraw_llama_error();                        \
        if (std::strcmp(error->kind, of_kind) != 0 || std::strstr(error->message, words) == nullptr) { \
            std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, error->kind, error->message); \
            std::exit(1);                                                           \
        }                                                                           \
    } while (0)

using Tokens = std::vector<llama_token>;
using Row = std::vector<float>;

// A sampler of onedraw's, or the test ends.
inline llama_sampler_ptr sampler(const std::string & json) {
    llama_sampler_ptr smpl(llama_sampler_init_onedraw(json.c_str()));
    if (smpl == nullptr) std::fprintf(stderr, "%s\n", onedraw_llama_error()->message);
    CHECK(smpl != nullptr);
    return smpl;
}

// A chain that owns these samplers.
inline llama_sampler_ptr chain(std::initializer_list<llama_sampler *> samplers) {
    llama_sampler_ptr chain(llama_sampler_chain_init(llama_sampler_chain_default_params()));
    for (llama_sampler * smpl : samplers) llama_sampler_chain_add(chain.get(), smpl);
    return chain;
}

class Model {
public:
    explicit Model(const char * file) : model_(llama_model_load_from_file(file, parameters())) {
        CHECK(model_ != nullptr);
    }

    llama_model * get() const { return model_.get(); }
    const llama_vocab * vocab() const { return llama_model_get_vocab(get()); }
    size_t size() const { return static_cast<size_t>(llama_vocab_n_tokens(vocab())); }

    Tokens tokens(const std::string & text) const {
        Tokens tokens(text.size() + 1);
        int32_t count = llama_tokenize(
            vocab(), text.data(), static_cast<int32_t>(text.size()), tokens.data(), static_cast<int32_t>(tokens.size()), true, false);
        CHECK(count > 0);
        tokens.resize(static_cast<size_t>(count));
        return tokens;
    }

    std::string text(const Tokens & tokens) const {
        std::string text;
        for (llama_token token : tokens) {
            char piece[64];
            text.append(piece, static_cast<size_t>(llama_token_to_piece(vocab(), token, piece, sizeof piece, 0, false)));
        }
        return text;
    }

private:
    static llama_model_params parameters() {
        llama_model_params parameters = llama_model_default_params();
        parameters.n_gpu_layers = 0;
        return parameters;
    }

    llama_model_ptr model_;
};

// How a context computes.
struct Settings {
    uint32_t sequences = 1;
    // Whether the sequences share one buffer of keys and values.
    bool unified = false;
    bool flash = false;
    ggml_type cache = GGML_TYPE_F16;
    int32_t threads = 1;
};

class Context {
public:
    Context(const Model & model, const Settings & settings)
        : size_(model.size()), context_(llama_init_from_model(model.get(), parameters(settings))),
          batch_(llama_batch_init(512, 0, 1)) {
        CHECK(context_ != nullptr);
    }
    Context(const Context &) = delete;
    Context & operator=(const Context &) = delete;
    ~Context() { llama_batch_free(batch_); }

    llama_context * get() const { return context_.get(); }

    // Puts a token in the next pass. Returns the number of its output.
    int32_t add(llama_token token, int32_t position, llama_seq_id sequence = 0, bool wants_row = true) {
        const int32_t place = batch_.n_tokens++;
        batch_.token[place] = token;
        batch_.pos[place] = position;
        batch_.n_seq_id[place] = 1;
        batch_.seq_id[place][0] = sequence;
        batch_.logits[place] = wants_row;
        return place;
    }

    void decode() {
        CHECK(llama_decode(get(), batch_) == 0);
        batch_.n_tokens = 0;
    }

    // Reads the beginning of a text; the row after its last token is output -1.
    void read(const Tokens & tokens, llama_seq_id sequence = 0) {
        for (size_t i = 0; i < tokens.size(); i++) {
            add(tokens[i], static_cast<int32_t>(i), sequence, i + 1 == tokens.size());
        }
        decode();
    }

    // Forgets a sequence from a position on.
    void cut(int32_t position, llama_seq_id sequence = 0) {
        CHECK(llama_memory_seq_rm(llama_get_memory(get()), sequence, position, -1));
    }

    Row row(int32_t idx) const {
        const float * logits = llama_get_logits_ith(get(), idx);
        CHECK(logits != nullptr);
        return Row(logits, logits + size_);
    }

private:
    static llama_context_params parameters(const Settings & settings) {
        llama_context_params parameters = llama_context_default_params();
        parameters.n_ctx = 512 * settings.sequences;
        parameters.n_batch = parameters.n_ubatch = 512;
        parameters.n_seq_max = settings.sequences;
        parameters.kv_unified = settings.unified;
        parameters.flash_attn_type = settings.flash ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
        parameters.type_k = parameters.type_v = settings.cache;
        parameters.n_threads = parameters.n_threads_batch = settings.threads;
        return parameters;
    }

    size_t size_;
    llama_context_ptr context_;
    llama_batch batch_;
};

inline bool same_bits(const Row & one, const Row & other) {
    return one.size() == other.size() && std::memcmp(one.data(), other.data(), one.size() * sizeof(float)) == 0;
}

#endif
