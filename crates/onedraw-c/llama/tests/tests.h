// The groups of tests. Those with a model also say what llama.cpp's own forward pass makes of the same text.
#ifndef TESTS_H
#define TESTS_H

class Model;

void test_sampler();
void test_draws(const Model & model);
void test_grammar(const Model & model);
// `exact`: llama.cpp must give a row the same bits in every pass.
void test_slots(const Model & model, bool exact);
void test_speculation(const Model & model, const Model & drafter, bool exact);

#endif
