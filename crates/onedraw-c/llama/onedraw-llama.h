/* onedraw in llama.cpp: a sampler for its chains, and a faster way that reads the logits where they are.
 *
 * The token depends on the logits' bits, the parameters, the history, the seed and the position, and on nothing else:
 * not on the slot, the other slots, the batch, or whether a draft guessed ahead. The book's page "llama.cpp" has
 * examples.
 *
 * A sampler draws at a position, the number of tokens that it has accepted. To draw twice without accepting gives the
 * same token twice. Positions count from the first accepted token, so a program that accepts the prompt, as
 * llama-server does, begins after it; the penalties see such a prompt as output. onedraw_llama_set_prompt tells it as a
 * prompt.
 *
 * A draw that fails returns LLAMA_TOKEN_NULL, which llama_decode refuses, and onedraw_llama_error has the words. One
 * thread at a time may use a sampler, or read the logits of a context. */

#ifndef ONEDRAW_LLAMA_H
#define ONEDRAW_LLAMA_H

#include "llama.h"
#include "onedraw.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a sampler of one JSON object with onedraw's parameters, such as {"temperature": 0.8, "top_p": 0.9, "seed": 42}.
 * It does the work of a whole chain and selects the token, so it stands alone or at the end of a chain. NULL: the
 * parameters cannot be used. Free it with llama_sampler_free, or add it to a chain.
 *
 * With llama_sampler_reset it is what it was when it was made, with the same seed; a prompt that was told later is
 * forgotten. llama_sampler_clone and llama_sampler_copy give one that goes on alike; the copy has a new handle
 * (onedraw_llama_handle). llama_sampler_get_seed does not know onedraw's seed; onedraw_sampler_seed does. Probabilities
 * (llama_token_data.p) are not filled in and are 0 after llama_sampler_sample; with the parameter `logprobs` they are told
 * by onedraw_sampler_logprobs. */
struct llama_sampler * llama_sampler_init_onedraw(const char * json);

/* Draws from the logits of an output and accepts the token: llama_sampler_sample without the array of candidates. The
 * sampler is one of onedraw's, or a chain that ends with one. If it stands alone, the row is read in place. Samplers
 * before it, such as a grammar, get the array that they need. With llama.cpp's grammar before it, draw with this and not
 * with llama_sampler_sample: that one accepts what a failed draw returns, and the grammar ends the program then.
 *
 * It is an error if the context samples on its backend for that output: the logits are not there then. */
llama_token onedraw_llama_sample(struct llama_context * ctx, struct llama_sampler * smpl, int32_t idx);

/* As onedraw_llama_sample, for a sampler that stands alone, among the tokens whose bit is set in the `words` words of
 * `mask`, 32 in each, lowest bit first: those that onedraw_matcher_mask fills for a grammar. */
llama_token onedraw_llama_sample_masked(
        struct llama_context * ctx, struct llama_sampler * smpl, int32_t idx, const uint32_t * mask, size_t words);

/* Verifies a chain of guesses exactly and accepts what it draws: the text is that of plain decoding, whatever is
 * guessed. Output idx[0] is the one after the text, idx[i + 1] the one after guess i; `idx` and `drawn` have
 * n_guesses + 1 entries. Returns how many tokens were drawn, at least 1: the guesses that hold, and the token after
 * them. If a row cannot be drawn from, the last is LLAMA_TOKEN_NULL, and those before it are accepted. 0: an argument is
 * NULL or negative.
 *
 * It does not stop at a token that ends the text; whoever guesses beyond one takes the tokens after it back. It is the same
 * as to call onedraw_llama_sample for one output after another, which a program does itself that wants the logprobs of
 * each token: after this call the handle has those of the last. */
int32_t onedraw_llama_verify(
        struct llama_context * ctx, struct llama_sampler * smpl, const int32_t * idx, const llama_token * guesses,
        int32_t n_guesses, llama_token * drawn);

/* Tells the tokens of the prompt, in place of `prompt_token_ids` in the parameters. Repetition penalties, DRY and the
 * ban of repeated n-grams look at it. Whether it was done. */
bool onedraw_llama_set_prompt(struct llama_sampler * smpl, const llama_token * tokens, size_t n_tokens);

/* Tells how many tokens the vocabulary has. Only llama_sampler_apply and llama_sampler_sample need to know it, and only
 * where samplers before this one shorten the array of candidates, as top-k does. Whether it was done. */
bool onedraw_llama_set_vocabulary(struct llama_sampler * smpl, size_t n_vocab);

/* The sampler of onedraw.h behind one of onedraw's, or behind the last of a chain, for everything else: the seed, logprobs,
 * explanations, saving, rewinding. It belongs to the llama_sampler. NULL: there is none. */
struct onedraw_sampler * onedraw_llama_handle(const struct llama_sampler * smpl);

/* The tokens of a model for onedraw's grammars (onedraw_grammar_new). NULL: they cannot be used. Free it with
 * onedraw_vocabulary_free. */
struct onedraw_vocabulary * onedraw_llama_vocabulary(const struct llama_vocab * vocab);

/* What the last call on this thread that failed has to say. A call that succeeds leaves it as it is. */
const struct onedraw_error * onedraw_llama_error(void);

#ifdef __cplusplus
}
#endif

#endif
