// Requests that are served together, each in a slot, beside each of them alone.
#include "comparison.h"
#include "tests.h"

namespace {

const size_t SLOTS = 8;
const size_t LENGTH = 60;

struct Request {
    const char * prompt;
    const char * json;
    // The pass in which it arrives.
    size_t arrival;
};

const Request REQUESTS[] = {
    {"Once upon a time", R"({"seed": 7, "temperature": 0.7, "top_k": 50, "top_p": 0.9})", 0},
    {"Once upon a time", R"({"seed": 7, "temperature": 0.7, "top_k": 50, "top_p": 0.9})", 5},
    {"Tom saw a big", R"({"seed": 1})", 0},
    {"The little dog", R"({"seed": 1, "min_p": 0.05, "repetition_penalty": 1.1})", 3},
    {"Lily was", R"({"temperature": 0})", 9},
    {"One day, a bird", R"({"seed": 3, "mirostat": 2})", 1},
    {"Mom said", R"({"seed": 4, "typical_p": 0.9, "dry_multiplier": 0.8})", 20},
    {"In the park there", R"({"seed": 5, "xtc_probability": 0.5, "top_n_sigma": 1.5})", 2},
    {"Ben had a red", R"({"seed": 6, "top_p": 0.8, "temperature": 1.3})", 40},
    {"Sara and her dad", R"({"seed": 8, "frequency_penalty": 0.5})", 0},
    {"The sun", R"({"seed": 9, "temperature": 0.5})", 0},
};

struct Slot {
    const Alone * alone = nullptr;
    llama_sampler_ptr smpl;
    Tokens tokens;
    int32_t output = 0;
    bool is_same = true;
};

void compare(const Model & model, const char * what, Settings settings, bool exact) {
    std::vector<Alone> alone;
    for (const Request & request : REQUESTS) alone.push_back(write_alone(model, settings, request.prompt, request.json, LENGTH));
    // The same request has the same text.
    CHECK(alone[0].tokens == alone[1].tokens && alone[2].tokens != alone[10].tokens);

    settings.sequences = SLOTS;
    Context context(model, settings);
    Slot slots[SLOTS];
    Comparison comparison;
    size_t finished = 0;
    std::vector<bool> is_served(alone.size());
    for (size_t pass = 0; finished < alone.size(); pass++) {
        // Prompts are read beside the tokens of the other slots.
        for (size_t number = 0; number < SLOTS; number++) {
            Slot & slot = slots[number];
            const auto sequence = static_cast<llama_seq_id>(number);
            if (slot.alone != nullptr) {
                slot.output = context.add(slot.tokens.back(), static_cast<int32_t>(slot.tokens.size()) - 1, sequence);
                continue;
            }
            for (size_t request = 0; request < alone.size() && slot.alone == nullptr; request++) {
                if (is_served[request] || REQUESTS[request].arrival > pass) continue;
                is_served[request] = true;
                slot.alone = &alone[request];
                slot.smpl = sampler(REQUESTS[request].json);
                slot.tokens = slot.alone->prompt;
                slot.is_same = true;
                for (size_t i = 0; i < slot.tokens.size(); i++) {
                    slot.output = context.add(slot.tokens[i], static_cast<int32_t>(i), sequence, i + 1 == slot.tokens.size());
                }
            }
        }
        context.decode();
        for (size_t number = 0; number < SLOTS; number++) {
            Slot & slot = slots[number];
            if (slot.alone == nullptr) continue;
            const Row row = context.row(slot.output);
            const llama_token token = onedraw_llama_sample(context.get(), slot.smpl.get(), slot.output);
            const size_t place = slot.tokens.size() - slot.alone->prompt.size();
            if (slot.is_same) slot.is_same = comparison.step(*slot.alone, place, row, token);
            slot.tokens.push_back(token);
            if (place + 1 == LENGTH) {
                slot.alone = nullptr;
                finished++;
                context.cut(0, static_cast<llama_seq_id>(number));
            }
        }
    }
    comparison.report(what, alone.size(), exact);
}

}  // namespace

void test_slots(const Model & model, bool exact) {
    Settings settings;
    compare(model, "slots, a cache for each", settings, exact);
    settings.unified = true;
    compare(model, "slots, one cache", settings, false);
    settings.flash = true;
    compare(model, "slots, one cache, flash attention", settings, false);
    settings.unified = false;
    compare(model, "slots, a cache for each, flash attention", settings, exact);
}
