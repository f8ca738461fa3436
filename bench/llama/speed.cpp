// What a token costs: llama.cpp's own chain, and onedraw in place and in a chain, in turns over the same rows.
//
//   speed MODEL.gguf [ROUNDS]     prints a table in Markdown
//
// The rows are peaked, as in bench/README.md, and are written over the logits of a context, so that every sampler reads
// them where a program's sampler would.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "llama-cpp.h"
#include "onedraw-llama.h"

namespace {

const int32_t ROWS = 16;
const int32_t PROMPT = 512;
const int32_t OUTPUT = 1000;

[[noreturn]] void give_up(const char * message) {
    std::fprintf(stderr, "%s\n", message);
    std::exit(1);
}

// A normal bulk, sigma 3, and at places anywhere a Zipf head of 1,024 tokens, as in crates/onedraw-bench/src/rows.rs.
std::vector<float> peaked(uint32_t seed, size_t vocabulary) {
    std::mt19937 random(seed);
    std::normal_distribution<double> bulk(0, 3);
    const double steepness = 1.3 + 0.8 * std::uniform_real_distribution<double>()(random);
    std::vector<float> row;
    for (size_t rank = 1; rank <= vocabulary; rank++) {
        row.push_back(static_cast<float>(rank <= 1024 ? 20 - steepness * std::log(static_cast<double>(rank)) : bulk(random)));
    }
    std::shuffle(row.begin(), row.end(), random);
    return row;
}

// Frequent tokens come first.
std::vector<llama_token> text(int32_t length, size_t vocabulary) {
    std::mt19937 random(1);
    std::uniform_real_distribution<double> share(0, std::log(static_cast<double>(vocabulary)));
    std::vector<llama_token> text;
    for (int32_t i = 0; i < length; i++) text.push_back(static_cast<llama_token>(std::exp(share(random))) - 1);
    return text;
}

struct Strategy {
    const char * name;
    // Ours, beside the order, the seed and the history.
    const char * json;
    // Theirs.
    std::function<std::vector<llama_sampler *>(int32_t vocabulary)> samplers;
    bool has_history;
};

const Strategy STRATEGIES[] = {
    {"greedy", R"("temperature": 0)", [](int32_t) { return std::vector{llama_sampler_init_greedy()}; }, false},
    {"temperature 0.8", R"("temperature": 0.8)",
     [](int32_t) { return std::vector{llama_sampler_init_temp(0.8f), llama_sampler_init_dist(1)}; }, false},
    {"top-k 50, top-p 0.9", R"("temperature": 0.8, "top_k": 50, "top_p": 0.9)",
     [](int32_t) {
         return std::vector{llama_sampler_init_top_k(50), llama_sampler_init_top_p(0.9f, 1), llama_sampler_init_temp(0.8f),
                            llama_sampler_init_dist(1)};
     },
     false},
    {"top-p 0.9", R"("temperature": 0.8, "top_p": 0.9)",
     [](int32_t) {
         return std::vector{llama_sampler_init_top_p(0.9f, 1), llama_sampler_init_temp(0.8f), llama_sampler_init_dist(1)};
     },
     false},
    {"min-p 0.05", R"("temperature": 0.8, "min_p": 0.05)",
     [](int32_t) {
         return std::vector{llama_sampler_init_min_p(0.05f, 1), llama_sampler_init_temp(0.8f), llama_sampler_init_dist(1)};
     },
     false},
    {"penalties, top-k 40, top-p 0.95, min-p 0.05",
     R"("temperature": 0.8, "repetition_penalty": 1.1, "frequency_penalty": 0.2, "presence_penalty": 0.1,
        "penalty_scope": "all", "top_k": 40, "top_p": 0.95, "min_p": 0.05)",
     [](int32_t vocabulary) {
         return std::vector{llama_sampler_init_penalties(vocabulary, PROMPT + OUTPUT, 1.1f, 0.2f, 0.1f),
                            llama_sampler_init_top_k(40), llama_sampler_init_top_p(0.95f, 1),
                            llama_sampler_init_min_p(0.05f, 1), llama_sampler_init_temp(0.8f), llama_sampler_init_dist(1)};
     },
     true},
};

// One of the samplers that are compared.
struct Contender {
    llama_sampler_ptr smpl;
    llama_token (*draw)(llama_context *, llama_sampler *, int32_t);
    std::vector<double> times = {};
    std::vector<llama_token> tokens = {};
};

llama_token as_llama_does(llama_context * context, llama_sampler * smpl, int32_t idx) {
    return llama_sampler_sample(smpl, context, idx);
}

llama_sampler_ptr chain(const std::vector<llama_sampler *> & samplers) {
    llama_sampler_chain_params params = llama_sampler_chain_default_params();
    params.no_perf = true;
    llama_sampler_ptr chain(llama_sampler_chain_init(params));
    for (llama_sampler * smpl : samplers) {
        if (smpl == nullptr) give_up(onedraw_llama_error()->message);
        llama_sampler_chain_add(chain.get(), smpl);
    }
    return chain;
}

// The microseconds that this thread has worked. The clock of the wall would count what others do on the machine.
double worked() {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

// The mean microseconds of a draw: `again` times from each row.
double round_of(llama_context * context, Contender & contender, int32_t again) {
    contender.tokens.clear();
    const double began = worked();
    for (int32_t i = 0; i < ROWS * again; i++) contender.tokens.push_back(contender.draw(context, contender.smpl.get(), i / again));
    const double time = worked() - began;
    if (onedraw_sampler * handle = onedraw_llama_handle(contender.smpl.get())) {
        // The history stays as long as it is.
        size_t output = 0;
        onedraw_sampler_output(handle, nullptr, 0, &output, nullptr);
        onedraw_sampler_rewind(handle, output - contender.tokens.size(), nullptr);
    }
    return time / (ROWS * again);
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

void measure(llama_context * context, int32_t vocabulary, const Strategy & strategy, int32_t again, int rounds) {
    const std::string json = std::string("{\"order\": \"llama.cpp\", \"seed\": 1, ") + strategy.json + "}";
    Contender contenders[] = {
        {chain(strategy.samplers(vocabulary)), as_llama_does},
        {llama_sampler_ptr(chain({llama_sampler_init_onedraw(json.c_str())})), onedraw_llama_sample},
        {llama_sampler_ptr(chain({llama_sampler_init_onedraw(json.c_str())})), as_llama_does},
    };
    auto & [theirs, in_place, through] = contenders;
    if (strategy.has_history) {
        for (llama_token token : text(PROMPT + OUTPUT, static_cast<size_t>(vocabulary))) {
            for (Contender & contender : contenders) llama_sampler_accept(contender.smpl.get(), token);
        }
    }
    std::vector<double> times_in_place, times_through;
    for (int round = -1; round < rounds; round++) {
        double times[3];
        for (size_t i = 0; i < 3; i++) times[i] = round_of(context, contenders[i], again);
        for (llama_token token : in_place.tokens) {
            if (token == LLAMA_TOKEN_NULL) give_up(onedraw_llama_error()->message);
        }
        if (in_place.tokens != through.tokens) give_up("the two ways draw other tokens");
        if (round < 0) continue;
        for (size_t i = 0; i < 3; i++) contenders[i].times.push_back(times[i]);
        times_in_place.push_back(times[0] / times[1]);
        times_through.push_back(times[0] / times[2]);
    }
    std::printf("| %s | %.0f µs | %.1f µs | %.1f × | %.0f µs | %.2f × |\n", strategy.name, median(theirs.times),
                median(in_place.times), median(times_in_place), median(through.times), median(times_through));
    std::fflush(stdout);
}

}  // namespace

int main(int count, char ** arguments) {
    if (count != 2 && count != 3) give_up("usage: speed MODEL.gguf [ROUNDS]");
    const int rounds = count == 3 ? std::atoi(arguments[2]) : 101;
    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    llama_model_ptr model(llama_model_load_from_file(arguments[1], llama_model_default_params()));
    if (model == nullptr) give_up("the model cannot be loaded");
    llama_context_params params = llama_context_default_params();
    params.n_ctx = 512;
    llama_context_ptr context(llama_init_from_model(model.get(), params));
    llama_batch batch = llama_batch_init(ROWS, 0, 1);
    for (int32_t i = 0; i < ROWS; i++) {
        batch.token[i] = i;
        batch.pos[i] = i;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = true;
    }
    batch.n_tokens = ROWS;
    if (context == nullptr || llama_decode(context.get(), batch) != 0) give_up("the model cannot be run");
    llama_batch_free(batch);
    const int32_t vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model.get()));
    for (int32_t row = 0; row < ROWS; row++) {
        const std::vector<float> logits = peaked(static_cast<uint32_t>(row), static_cast<size_t>(vocabulary));
        std::copy(logits.begin(), logits.end(), llama_get_logits_ith(context.get(), row));
    }
    for (int32_t again : {32, 1}) {
        std::printf("\n| %d logits, peaked; %s | llama.cpp's chain | in place | | through llama_sampler_i | |\n|---|---:|---:|---:|---:|---:|\n",
                    vocabulary, again > 1 ? "each row 32 times" : "another row each time");
        for (const Strategy & strategy : STRATEGIES) measure(context.get(), vocabulary, strategy, again, rounds);
    }
}
