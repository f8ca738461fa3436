// The rows of the grid in llama.cpp: its own samplers and its own guesses, from its library `common`, as its program
// speculative-simple uses them.
//
//   rows MODEL.gguf DRAFTER.gguf ROWS.json SCHEMAS SYSTEM     SCHEMAS is the folder that the rows' schemas are named from
//
// Prints what was written for each row and way to guess, as JSON with the name SYSTEM.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common.h"
#include "json-schema-to-grammar.h"
#include "json.h"
#include "llama-cpp.h"
#include "log.h"
#include "sampling.h"
#include "speculative.h"

namespace {

using json = nlohmann::ordered_json;

const char * const ABOUT =
    "Built without llamafile's products, so that a row of logits has the same bits in every pass; built as it builds itself, it has not. "
    "There is no early exit, and its EAGLE-3 needs a head of another form. Its library lists no logprobs: they are computed from its logits.";
const int32_t GUESSES = 4;
const uint32_t CONTEXT = 512;

// How guesses are made, and whether they are judged by rejection. Otherwise a guess holds if it is the token that is drawn.
struct Way {
    const char * name;
    common_speculative_type type;
    bool rejection;
};

const Way WAYS[] = {
    {"none", COMMON_SPECULATIVE_TYPE_NONE, false},
    {"drafter", COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE, false},
    {"drafter, by rejection", COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE, true},
    {"n-gram", COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE, false},
    {"n-gram cache", COMMON_SPECULATIVE_TYPE_NGRAM_CACHE, false},
};

[[noreturn]] void give_up(const std::string & message) {
    std::fprintf(stderr, "%s\n", message.c_str());
    std::exit(1);
}

std::string read(const std::string & file) {
    std::ifstream stream(file);
    if (!stream) give_up(file + " cannot be read");
    std::ostringstream text;
    text << stream.rdbuf();
    return text.str();
}

// What llama.cpp does not have.
struct Refused : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// The parameters of a row under the names that llama.cpp has for them. What a row does not name is off.
common_params_sampling parameters(const json & row, const std::string & schemas) {
    common_params_sampling params;
    params.no_perf = true;
    params.temp = 1;
    params.top_k = 0;
    params.top_p = 1;
    params.min_p = 0;
    params.penalty_last_n = CONTEXT;
    for (const auto & [name, value] : row.at("params").items()) {
        if (name == "temperature") params.temp = value;
        else if (name == "top_k") params.top_k = value;
        else if (name == "top_p") params.top_p = value;
        else if (name == "min_p") params.min_p = value;
        else if (name == "repetition_penalty") params.penalty_repeat = value;
        else if (name == "frequency_penalty") params.penalty_freq = value;
        else if (name == "presence_penalty") params.penalty_present = value;
        else if (name == "mirostat") params.mirostat = value;
        else if (name == "mirostat_tau") params.mirostat_tau = value;
        else if (name == "xtc_probability") params.xtc_probability = value;
        else if (name == "xtc_threshold") params.xtc_threshold = value;
        else if (name == "logit_bias") {
            for (const auto & [token, bias] : value.items()) params.logit_bias.push_back({std::stoi(token), bias});
        } else if (name != "logprobs") throw Refused("there is no parameter " + name);
    }
    if (row.contains("schema")) {
        const std::string schema = read(schemas + "/" + row.at("schema").get<std::string>());
        params.grammar = {COMMON_GRAMMAR_TYPE_USER, json_schema_to_grammar(common_json::parse(schema))};
    }
    return params;
}

llama_model_ptr load(const char * file) {
    llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = 0;
    llama_model_ptr model(llama_model_load_from_file(file, params));
    if (model == nullptr) give_up(std::string(file) + " cannot be loaded");
    return model;
}

// With one thread, plain attention and no products of llamafile's, a row has the same bits in every pass.
llama_context_ptr context(llama_model * model) {
    llama_context_params params = llama_context_default_params();
    params.n_ctx = params.n_batch = params.n_ubatch = CONTEXT;
    params.n_threads = params.n_threads_batch = 1;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    llama_context_ptr context(llama_init_from_model(model, params));
    if (context == nullptr) give_up("there is no room for a context");
    return context;
}

void decode(llama_context * context, common_batch & batch) {
    if (llama_process(context, LLAMA_PROCESS_TYPE_DECODE, batch.get()) != 0) give_up("a pass failed");
}

void cut(llama_context * context, llama_pos length) {
    if (context != nullptr) llama_memory_seq_rm(llama_get_memory(context), 0, length, -1);
}

// The logprobs of a token and of the best ones.
json logprobs(llama_context * context, int32_t output, llama_token token, size_t best) {
    const float * logits = llama_get_logits_ith(context, output);
    const size_t size = static_cast<size_t>(llama_vocab_n_tokens(llama_model_get_vocab(llama_get_model(context))));
    std::vector<llama_token> order(size);
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(best), order.end(), [&](llama_token a, llama_token b) {
        return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
    });
    order.resize(best);
    order.insert(order.begin(), token);
    double sum = 0;
    for (size_t i = 0; i < size; i++) sum += std::exp(static_cast<double>(logits[i]) - logits[order[1]]);
    json listed;
    for (llama_token one : order) listed.push_back({one, static_cast<double>(logits[one]) - logits[order[1]] - std::log(sum)});
    return listed;
}

struct Count {
    size_t drafted = 0, accepted = 0;
};

// One text.
json write(llama_model * model, llama_model * drafter, const Way & way, common_params_sampling params, const json & asked, size_t length, size_t best, Count & count) {
    params.seed = asked.at("seed");
    common_sampler_ptr sampler(common_sampler_init(model, params));
    const llama_context_ptr target = context(model);
    const llama_context_ptr guessing = way.type == COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE ? context(drafter) : nullptr;
    common_params_speculative settings;
    settings.types = {way.type};
    settings.draft.ctx_tgt = target.get();
    settings.draft.ctx_dft = guessing.get();
    settings.draft.n_max = GUESSES;
    settings.draft.probabilistic = way.rejection;
    // Its defaults, 12 and 48, are longer than a text here.
    settings.ngram_simple.size_n = 2;
    settings.ngram_simple.size_m = GUESSES;
    const common_speculative_ptr speculation(
        way.type == COMMON_SPECULATIVE_TYPE_NONE ? nullptr : common_speculative_init(settings, 1));

    // The model has read all tokens but the last.
    llama_tokens read = common_tokenize(target.get(), asked.at("prompt"), true, true);
    for (llama_token token : read) common_sampler_accept(sampler.get(), token, false);
    llama_token last = read.back();
    read.pop_back();
    common_batch batch(target.get());
    for (size_t i = 0; i < read.size(); i++) batch.add(read[i], static_cast<llama_pos>(i), 0, false);
    decode(target.get(), batch);
    if (!common_speculative_process(speculation.get(), batch)) give_up("a pass of the drafter failed");
    common_speculative_begin(speculation.get(), 0, read);

    const llama_vocab * vocab = llama_model_get_vocab(model);
    llama_tokens tokens;
    json listed = json::array();
    while (tokens.size() < length && (tokens.empty() || !llama_vocab_is_eog(vocab, tokens.back()))) {
        llama_tokens draft;
        std::vector<std::vector<llama_token_data>> laws;
        const llama_pos position = static_cast<llama_pos>(read.size());
        if (speculation != nullptr) {
            common_speculative_draft_params & asked_for = common_speculative_get_draft_params(speculation.get(), 0);
            asked_for = {};
            asked_for.drafting = true;
            asked_for.n_max = GUESSES;
            asked_for.pos0 = position;
            asked_for.id_last = last;
            asked_for.prompt = &read;
            asked_for.result = &draft;
            if (way.rejection) asked_for.result_q = &laws;
            asked_for.temp = params.temp;
            asked_for.seed = params.seed;
            common_speculative_draft(speculation.get());
            cut(guessing.get(), position);
        }
        batch.clear();
        batch.add(last, position, 0, true);
        for (size_t i = 0; i < draft.size(); i++) batch.add(draft[i], position + 1 + static_cast<llama_pos>(i), 0, true);
        decode(target.get(), batch);
        if (!common_speculative_process(speculation.get(), batch)) give_up("a pass of the drafter failed");
        std::vector<int> outputs(draft.size() + 1);
        std::iota(outputs.begin(), outputs.end(), 0);
        const llama_tokens drawn = laws.empty()
            ? common_sampler_sample_and_accept_n(sampler.get(), target.get(), outputs, draft)
            : common_sampler_sample_and_accept_n_rejection(sampler.get(), target.get(), outputs, draft, laws);
        if (speculation != nullptr) common_speculative_accept(speculation.get(), 0, static_cast<uint16_t>(drawn.size() - 1));
        count.drafted += draft.size();
        count.accepted += drawn.size() - 1;
        for (size_t i = 0; i < drawn.size(); i++) {
            if (best > 0) listed.push_back(logprobs(target.get(), outputs[i], drawn[i], best));
            tokens.push_back(drawn[i]);
            read.push_back(last);
            last = drawn[i];
        }
        cut(target.get(), static_cast<llama_pos>(read.size()));
        cut(guessing.get(), static_cast<llama_pos>(read.size()));
    }
    // A pass may give more tokens than are left.
    tokens.resize(std::min(tokens.size(), length));
    if (best > 0) listed.erase(listed.begin() + static_cast<ptrdiff_t>(tokens.size()), listed.end());
    return {{"text", common_detokenize(target.get(), tokens, false)}, {"tokens", tokens}, {"logprobs", listed}};
}

}  // namespace

int main(int count, char ** arguments) {
    if (count != 6) give_up("usage: rows MODEL.gguf DRAFTER.gguf ROWS.json SCHEMAS SYSTEM");
    const auto silent = [](ggml_log_level, const char *, void *) {};
    llama_log_set(silent, nullptr);
    common_log_set_verbosity_thold(-1);
    const llama_model_ptr model = load(arguments[1]), drafter = load(arguments[2]);
    const json asked = json::parse(read(arguments[3]));
    json answer = {{"system", arguments[5]}, {"about", ABOUT}, {"columns", json::array()}, {"rows", json::array()}};
    for (const Way & way : WAYS) answer["columns"].push_back(way.name);
    for (const json & row : asked.at("rows")) {
        json cells = json::array();
        for (const Way & way : WAYS) {
            try {
                const common_params_sampling params = parameters(row, arguments[4]);
                const size_t length = row.value("length", asked.at("length").get<size_t>());
                const size_t best = row.at("params").value("logprobs", size_t{0});
                Count count;
                json texts = json::array();
                for (const json & batch : asked.at("batches")) {
                    for (const json & one : batch) {
                        texts.push_back(write(model.get(), drafter.get(), way, params, one, length, best, count));
                    }
                }
                cells.push_back({{"texts", texts}, {"drafted", count.drafted}, {"accepted", count.accepted}});
            } catch (const std::exception & error) {
                cells.push_back({{"refused", error.what()}});
            }
        }
        answer["rows"].push_back({{"name", row.at("name")}, {"cells", cells}});
        std::fprintf(stderr, "llama.cpp: %s\n", row.at("name").get<std::string>().c_str());
    }
    std::printf("%s\n", answer.dump().c_str());
}
