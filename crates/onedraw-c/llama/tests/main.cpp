// The tests of onedraw in llama.cpp: main MODEL.gguf DRAFTER.gguf [exact]
// `exact`: llama.cpp was built so that a row has the same bits in every pass, and texts must be the same.
#include "support.h"
#include "tests.h"

int main(int count, char ** arguments) {
    CHECK(count == 3 || (count == 4 && std::string(arguments[3]) == "exact"));
    const bool exact = count == 4;
    // Errors that tests provoke are not for the screen.
    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    test_sampler();
    std::puts("the sampler in chains");
    const Model model(arguments[1]), drafter(arguments[2]);
    test_draws(model);
    std::puts("draws from the logits of a model");
    test_grammar(model);
    std::puts("grammars");
    test_slots(model, exact);
    test_speculation(model, drafter, exact);
}
