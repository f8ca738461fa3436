// Eight stories at the same time, each in a slot of its own, drawn by onedraw; then each again, alone, with guesses.
//
//   onedraw-slots MODEL.gguf [DRAFTER.gguf]
//
// A story depends on its prompt, parameters and seed. So the second time it is the same, although guesses of a smaller
// model (or, without one, of what the text repeats) are read several tokens at a time: as long as llama.cpp computes the
// same logits, which a build with -DGGML_LLAMAFILE=OFF does on a CPU.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "llama-cpp.h"
#include "onedraw-llama.h"

namespace {

using Tokens = std::vector<llama_token>;

const size_t SLOTS = 8;
const size_t LENGTH = 100;
const size_t GUESSES = 4;

[[noreturn]] void give_up(const char * message) {
    std::fprintf(stderr, "%s\n", message);
    std::exit(1);
}

llama_model_ptr load(const char * file) {
    llama_model_ptr model(llama_model_load_from_file(file, llama_model_default_params()));
    if (model == nullptr) give_up("the model cannot be loaded");
    return model;
}

llama_sampler_ptr sampler(size_t seed) {
    const std::string json =
        R"({"temperature": 0.7, "top_k": 50, "top_p": 0.9, "seed": )" + std::to_string(seed) + "}";
    llama_sampler_ptr smpl(llama_sampler_init_onedraw(json.c_str()));
    if (smpl == nullptr) give_up(onedraw_llama_error()->message);
    return smpl;
}

// A context with its batch.
class Decoder {
public:
    Decoder(llama_model * model, uint32_t sequences) : batch_(llama_batch_init(512, 0, 1)) {
        llama_context_params params = llama_context_default_params();
        params.n_ctx = 512 * sequences;
        params.n_seq_max = sequences;
        // Stories come from a small model, whose threads would mostly wait for each other.
        params.n_threads = params.n_threads_batch = 1;
        // With a cache for each sequence and plain attention, the others do not change a sequence's bits.
        params.kv_unified = false;
        params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
        context_.reset(llama_init_from_model(model, params));
        if (context_ == nullptr) give_up("there is no room for the context");
    }
    Decoder(const Decoder &) = delete;
    Decoder & operator=(const Decoder &) = delete;
    ~Decoder() { llama_batch_free(batch_); }

    llama_context * context() const { return context_.get(); }

    // Adds a token to the next pass. Returns the number of its output.
    int32_t add(llama_token token, size_t position, llama_seq_id sequence = 0) {
        const int32_t place = batch_.n_tokens++;
        batch_.token[place] = token;
        batch_.pos[place] = static_cast<llama_pos>(position);
        batch_.n_seq_id[place] = 1;
        batch_.seq_id[place][0] = sequence;
        batch_.logits[place] = true;
        return place;
    }

    // Adds the tokens from a place on.
    int32_t add_from(const Tokens & tokens, size_t place, llama_seq_id sequence = 0) {
        int32_t output = -1;
        for (; place < tokens.size(); place++) output = add(tokens[place], place, sequence);
        return output;
    }

    void decode() {
        if (llama_decode(context(), batch_) != 0) give_up("llama_decode failed");
        batch_.n_tokens = 0;
    }

    // Forgets what comes after so many tokens.
    void cut(size_t length) { llama_memory_seq_rm(llama_get_memory(context()), 0, static_cast<llama_pos>(length), -1); }

private:
    llama_context_ptr context_;
    llama_batch batch_;
};

Tokens tokens_of(const llama_model * model, const std::string & text) {
    Tokens tokens(text.size() + 1);
    const int32_t count = llama_tokenize(
        llama_model_get_vocab(model), text.data(), static_cast<int32_t>(text.size()), tokens.data(),
        static_cast<int32_t>(tokens.size()), true, false);
    tokens.resize(static_cast<size_t>(std::max(count, 0)));
    return tokens;
}

std::string text_of(const llama_model * model, const Tokens & tokens) {
    std::string text;
    for (llama_token token : tokens) {
        char piece[128];
        const int32_t length = llama_token_to_piece(llama_model_get_vocab(model), token, piece, sizeof piece, 0, false);
        text.append(piece, static_cast<size_t>(std::max(length, 0)));
    }
    return text;
}

// Every story in a slot, one pass for all of them.
std::vector<Tokens> write_together(llama_model * model, const Tokens & prompt) {
    Decoder decoder(model, SLOTS);
    std::vector<Tokens> stories(SLOTS, prompt);
    std::vector<llama_sampler_ptr> samplers;
    std::vector<size_t> read(SLOTS, 0);
    for (size_t slot = 0; slot < SLOTS; slot++) samplers.push_back(sampler(slot));
    for (size_t token = 0; token < LENGTH; token++) {
        std::vector<int32_t> outputs;
        for (size_t slot = 0; slot < SLOTS; slot++) {
            outputs.push_back(decoder.add_from(stories[slot], read[slot], static_cast<llama_seq_id>(slot)));
            read[slot] = stories[slot].size();
        }
        decoder.decode();
        for (size_t slot = 0; slot < SLOTS; slot++) {
            const llama_token drawn = onedraw_llama_sample(decoder.context(), samplers[slot].get(), outputs[slot]);
            if (drawn == LLAMA_TOKEN_NULL) give_up(onedraw_llama_error()->message);
            stories[slot].push_back(drawn);
        }
    }
    return stories;
}

// A smaller model that guesses with a copy of the target's sampler. The copy draws with the same noise, so the models
// agree more often than if the smaller one named its favourites.
class Drafter {
public:
    explicit Drafter(llama_model * model) : decoder_(model, 1), smpl_(sampler(0)) {}

    Tokens guess(const Tokens & text, const llama_sampler * target) {
        llama_sampler_copy(target, smpl_.get());
        const auto end = read_.begin() + static_cast<ptrdiff_t>(std::min(read_.size(), text.size() - 1));
        read_.erase(std::mismatch(read_.begin(), end, text.begin()).first, read_.end());
        decoder_.cut(read_.size());
        decoder_.add_from(text, read_.size());
        read_ = text;
        Tokens guesses;
        for (;;) {
            decoder_.decode();
            guesses.push_back(onedraw_llama_sample(decoder_.context(), smpl_.get(), -1));
            if (guesses.back() == LLAMA_TOKEN_NULL) give_up(onedraw_llama_error()->message);
            if (guesses.size() == GUESSES) return guesses;
            decoder_.add(guesses.back(), read_.size());
            read_.push_back(guesses.back());
        }
    }

private:
    Decoder decoder_;
    llama_sampler_ptr smpl_;
    Tokens read_;
};

// The tokens that came after the last one where it was before.
Tokens repeated(const Tokens & text) {
    const auto before = std::find(text.rbegin() + 1, text.rend(), text.back());
    const auto first = before.base();
    return before == text.rend() ? Tokens() : Tokens(first, first + std::min<ptrdiff_t>(GUESSES, text.end() - first));
}

// One story alone, with guesses. Counts the passes.
Tokens write_with_guesses(llama_model * model, const Tokens & prompt, size_t seed, Drafter * drafter, size_t & passes) {
    Decoder decoder(model, 1);
    llama_sampler_ptr smpl = sampler(seed);
    Tokens text = prompt;
    size_t read = 0;
    while (text.size() < prompt.size() + LENGTH) {
        const Tokens guesses = drafter == nullptr ? repeated(text) : drafter->guess(text, smpl.get());
        std::vector<int32_t> outputs{decoder.add_from(text, read)};
        for (size_t i = 0; i < guesses.size(); i++) outputs.push_back(decoder.add(guesses[i], text.size() + i));
        decoder.decode();
        passes++;
        read = text.size();
        Tokens drawn(outputs.size());
        const int32_t count = onedraw_llama_verify(
            decoder.context(), smpl.get(), outputs.data(), guesses.data(), static_cast<int32_t>(guesses.size()), drawn.data());
        drawn.resize(static_cast<size_t>(count));
        if (drawn.back() == LLAMA_TOKEN_NULL) give_up(onedraw_llama_error()->message);
        text.insert(text.end(), drawn.begin(), drawn.end());
        // The guesses that hold were read; the others are forgotten.
        read += drawn.size() - 1;
        decoder.cut(read);
    }
    text.resize(prompt.size() + LENGTH);
    return text;
}

}  // namespace

int main(int count, char ** arguments) {
    if (count != 2 && count != 3) give_up("usage: onedraw-slots MODEL.gguf [DRAFTER.gguf]");
    llama_log_set([](ggml_log_level level, const char * text, void *) {
        if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
    }, nullptr);
    const llama_model_ptr model = load(arguments[1]);
    const llama_model_ptr smaller = count == 3 ? load(arguments[2]) : nullptr;
    const Tokens prompt = tokens_of(model.get(), "Once upon a time");

    const std::vector<Tokens> stories = write_together(model.get(), prompt);
    for (const Tokens & story : stories) std::printf("%s\n\n", text_of(model.get(), story).c_str());

    size_t same = 0, passes = 0;
    for (size_t seed = 0; seed < SLOTS; seed++) {
        const std::unique_ptr<Drafter> drafter(smaller == nullptr ? nullptr : new Drafter(smaller.get()));
        same += write_with_guesses(model.get(), prompt, seed, drafter.get(), passes) == stories[seed];
    }
    std::printf("%zu of %zu stories are the same with guesses, %.2f tokens in a pass\n", same, SLOTS,
                static_cast<double>(SLOTS * LENGTH) / static_cast<double>(passes));
}
