/* onedraw: from a language model's logits to tokens, exact and reproducible.
 *
 * Made from the crate onedraw-c by cbindgen: change the crate, not this file. The book's page "C and C++" has
 * examples.
 *
 * What holds for every function:
 *
 * - It returns a status, ONEDRAW_OK or what went wrong, and has the words for it in its last argument, which may be
 *   NULL. No error but a lack of memory ends the program, and nothing is thrown.
 * - A handle (onedraw_params *, onedraw_sampler *, ...) is a number that looks like a pointer. One that is NULL, was
 *   freed or is of another kind is the error ONEDRAW_BAD_HANDLE; one that another call is using is ONEDRAW_IN_USE.
 * - Other pointers must lead to as many values as their sizes say. NULL and wrong alignment are errors. With a size of
 *   zero, any pointer is accepted. Nothing that is written to may overlap with another argument, and no pointer is kept after
 *   the call.
 * - Text that is given ends with a zero and is UTF-8. Text that is returned does too, and its length is told without
 *   the zero. A buffer that is too small is the error ONEDRAW_TOO_SMALL, and the number that is needed is told:
 *   ask with a capacity of zero to learn it (for text, the zero is counted then). Where a call fails otherwise, that
 *   number is 0.
 * - "One thread at a time" means for each handle: different handles may be used at the same time. */

#ifndef ONEDRAW_H
#define ONEDRAW_H

#include <stddef.h>
#include <stdint.h>

/**
 * The version of the interface, to compare with `onedraw_abi()`. A program that was compiled with a header of this number
 * works with every library of this number that is not older than the header: functions are added, and never removed or
 * changed; structs and numbers stay as they are. What cannot be done so gets another number, and the installed library
 * another name (`libonedraw.so.1`).
 */
#define ONEDRAW_ABI 1

/**
 * The bytes of `onedraw_error.kind`, with the zero at the end.
 */
#define ONEDRAW_KIND_SIZE 48

/**
 * The bytes of `onedraw_error.message`, with the zero at the end.
 */
#define ONEDRAW_MESSAGE_SIZE 456

/**
 * The parent of a guess that follows the text itself.
 */
#define ONEDRAW_ROOT -1

/**
 * Sequences that come and go, each with its own parameters, seed and history. The token of a row depends on its
 * own sequence alone. One thread at a time may use it; a second one gets `ONEDRAW_IN_USE`.
 */
typedef struct onedraw_batch onedraw_batch;

/**
 * A search for the best texts, or a drawing of different ones. One thread at a time may use it; a second one gets
 * `ONEDRAW_IN_USE`.
 */
typedef struct onedraw_beams onedraw_beams;

/**
 * What a text must keep to, compiled for a vocabulary. Any number of threads may use one.
 */
typedef struct onedraw_grammar onedraw_grammar;

/**
 * A text that follows a grammar. One thread at a time may use it; a second one gets `ONEDRAW_IN_USE`.
 */
typedef struct onedraw_matcher onedraw_matcher;

/**
 * Sampling parameters. Their names are those of the book's page "Parameters". Any number of threads may use
 * one; what is made of it is independent of it.
 */
typedef struct onedraw_params onedraw_params;

/**
 * Draws the tokens of one sequence. One thread at a time may use it; a second one gets `ONEDRAW_IN_USE`.
 */
typedef struct onedraw_sampler onedraw_sampler;

/**
 * Finds where a text ends, token by token, and which part of it may be shown. One thread at a time may use it; a
 * second one gets `ONEDRAW_IN_USE`.
 */
typedef struct onedraw_stop onedraw_stop;

/**
 * The tokens of a model, prepared once for all grammars. Any number of threads may use one.
 */
typedef struct onedraw_vocabulary onedraw_vocabulary;

/**
 * What a function returns: `ONEDRAW_OK`, or what went wrong.
 */
typedef int32_t onedraw_status;

/**
 * What went wrong, in words. Every function takes a pointer to one, which may be NULL, and writes to it whether
 * it fails or not. It holds no pointers and need not be freed.
 */
typedef struct onedraw_error {
    /**
     * The same as what the function returns.
     */
    onedraw_status status;
    /**
     * The bytes of the whole message, without the zero at the end; 0 if nothing went wrong. A message that is
     * longer than `message` was cut, after a whole character.
     */
    uint32_t length;
    /**
     * A short name for programs to test: the parameter, the argument or the kind of the row's error. UTF-8, cut
     * like the message.
     */
    char kind[ONEDRAW_KIND_SIZE];
    /**
     * The message. UTF-8.
     */
    char message[ONEDRAW_MESSAGE_SIZE];
} onedraw_error;

/**
 * Tokens with their logits: an array of structs that have both, or two arrays. Each token comes once at most; the
 * order does not matter.
 */
typedef struct onedraw_records {
    /**
     * The id of the first record.
     */
    const int32_t *ids;
    /**
     * The logit of the first record.
     */
    const float *logits;
    /**
     * How many records there are.
     */
    size_t count;
    /**
     * How many bytes the beginnings of two records are apart, a multiple of 4; zero is 4, for two arrays.
     */
    size_t stride;
} onedraw_records;

/**
 * A type of numbers: `ONEDRAW_F32`, `ONEDRAW_F16` or `ONEDRAW_BF16`.
 */
typedef uint32_t onedraw_dtype;

/**
 * One row of logits, which is read in place. Set what you do not need to zero.
 */
typedef struct onedraw_row {
    /**
     * The logits, aligned as their type is. A logit is finite, or -inf for a token that is masked.
     */
    const void *logits;
    /**
     * How many there are, at most 1,048,576.
     */
    size_t vocabulary;
    /**
     * Their type; zero is `ONEDRAW_F32`.
     */
    onedraw_dtype dtype;
    /**
     * The 32-bit words of the mask, at least (vocabulary + 31) / 32; 0 without a mask.
     */
    uint32_t mask_words;
    /**
     * The tokens that may be drawn, 32 in each word, lowest bit first; NULL: all.
     */
    const uint32_t *mask;
} onedraw_row;

/**
 * A drawn token. What was not asked for is NaN, or 0 for the rank.
 */
typedef struct onedraw_sampled {
    /**
     * Whether this row was drawn from. If not, the rest means nothing, and in a batch `onedraw_batch_row_error` has
     * the words.
     */
    onedraw_status status;
    /**
     * The token.
     */
    uint32_t token;
    /**
     * The number of output tokens before it.
     */
    uint32_t position;
    /**
     * Which of the `n` sequences of its parameters it belongs to.
     */
    uint32_t sequence;
    /**
     * The seed that drew it.
     */
    uint64_t seed;
    /**
     * The probability with which it was drawn, where `probability` or `logprobs` is set.
     */
    double probability;
    /**
     * Its logprob as `logprobs_mode` says, where `logprobs` is set.
     */
    double logprob;
    /**
     * Where mirostat stands once the token is accepted, where it is on.
     */
    double mirostat_mu;
    /**
     * 1 + the tokens before it in the order, where `logprobs` is set.
     */
    uint32_t rank;
    /**
     * How many entries `onedraw_sampler_logprobs` or `onedraw_batch_logprobs` has for it, until the next call that draws.
     */
    uint32_t logprobs;
} onedraw_sampled;

/**
 * A token with its logprob and its rank.
 */
typedef struct onedraw_token_logprob {
    /**
     * The id.
     */
    uint32_t token;
    /**
     * 1 + the tokens before it in the order.
     */
    uint32_t rank;
    /**
     * The natural logarithm of its probability; in the logits modes its logit.
     */
    double logprob;
} onedraw_token_logprob;

/**
 * The tokens that could have been drawn, where the parameter `kept` asks for them.
 */
typedef struct onedraw_kept {
    /**
     * How many there are.
     */
    uint32_t count;
    /**
     * Whether they are a prefix of the order (1), so that `last_token` and `last_logit` are there, or not (0).
     */
    uint32_t is_prefix;
    /**
     * The last of them in the order.
     */
    uint32_t last_token;
    /**
     * Its logit after all edits.
     */
    float last_logit;
    /**
     * The logarithm of the sum of exp((x - x_max) / T) over them; 0 in a greedy draw.
     */
    double ln_mass;
} onedraw_kept;

/**
 * A token that can be drawn.
 */
typedef struct onedraw_probability {
    /**
     * The id.
     */
    uint32_t token;
    /**
     * Its probability.
     */
    double probability;
    /**
     * The natural logarithm of it; finite even where the probability rounds to 0.
     */
    double logprob;
} onedraw_probability;

/**
 * Several rows: a matrix in one buffer, whose rows may have something between them, or a pointer to each row. Set
 * what you do not need to zero.
 */
typedef struct onedraw_rows {
    /**
     * The first logit of the first row, aligned as its type is; NULL if there are `pointers`.
     */
    const void *logits;
    /**
     * How many rows there are.
     */
    size_t count;
    /**
     * The logits of a row, at most 1,048,576.
     */
    size_t vocabulary;
    /**
     * How many logits the beginnings of two rows are apart; zero is the same as `vocabulary`, and goes with
     * `pointers`.
     */
    size_t stride;
    /**
     * The type of the logits; zero is `ONEDRAW_F32`.
     */
    onedraw_dtype dtype;
    /**
     * The 32-bit words of every mask, at least (vocabulary + 31) / 32; 0 without masks.
     */
    uint32_t mask_words;
    /**
     * A mask for each row, or NULL for a row without one; NULL: no row has one.
     */
    const uint32_t *const *masks;
    /**
     * A pointer to the first logit of each row, where they are not in one buffer; NULL: they are.
     */
    const void *const *pointers;
} onedraw_rows;

/**
 * Names a sequence of a batch. It is not used again after the sequence is removed.
 */
typedef uint64_t onedraw_sequence;

/**
 * A token that finishes early in the race of a draw: what a drafter guesses.
 */
typedef struct onedraw_runner {
    /**
     * The token.
     */
    uint32_t token;
    /**
     * How far it is behind the winner, in the logarithm of the time; 0 for the winner.
     */
    double behind;
} onedraw_runner;

/**
 * Guesses after a text: a chain, or a tree.
 */
typedef struct onedraw_draft {
    /**
     * The guessed tokens, parents before their children.
     */
    const uint32_t *tokens;
    /**
     * The guess that each of them follows, or `ONEDRAW_ROOT`; NULL: each follows the one before it.
     */
    const int32_t *parents;
    /**
     * How many there are.
     */
    size_t count;
} onedraw_draft;

/**
 * Why a text ended: `ONEDRAW_GOES_ON` or one of the others.
 */
typedef uint32_t onedraw_finish;

/**
 * What a token changed in a text.
 */
typedef struct onedraw_progress {
    /**
     * How many bytes `onedraw_stop_text` has to show now.
     */
    size_t shown;
    /**
     * Why the text ended.
     */
    onedraw_finish finish;
    /**
     * The id that ended it, or the number of the string in `stop`.
     */
    uint32_t by;
    /**
     * Whether text must be taken back (1), because a banned string was completed, or not (0). Then hand
     * `rewind_length` and `rewind_token` to `onedraw_sampler_take_back`, and push the token that is drawn instead.
     */
    uint32_t rewinds;
    /**
     * The token that is banned at that position.
     */
    uint32_t rewind_token;
    /**
     * How many tokens of the output stay.
     */
    size_t rewind_length;
} onedraw_progress;

/**
 * What a token does to the text of a beam: `ONEDRAW_GOES_ON`, `ONEDRAW_STOP_STRING` if it ends the text, or
 * `ONEDRAW_FORBIDDEN`. It is asked about tokens that do not end the text by their ids, and no more once it has given an
 * answer that has no meaning. It cannot use the same beams. It must not throw or jump out: an exception of C++ that
 * leaves it ends the program with a message.
 */
typedef onedraw_finish (*onedraw_continuation)(void *context, size_t beam, uint32_t token);

/**
 * Where a beam of the next step comes from.
 */
typedef struct onedraw_branch {
    /**
     * The number of the beam that it continues, among those before the step. Caches follow it.
     */
    uint32_t beam;
    /**
     * The token that is appended.
     */
    uint32_t token;
} onedraw_branch;

/**
 * A text that was found.
 */
typedef struct onedraw_hypothesis {
    /**
     * What it was ranked by: the final score, or the perturbed logprob of a drawn text.
     */
    double score;
    /**
     * The sum of the logprobs of its tokens.
     */
    double logprob;
    /**
     * The probability that a drawn text is among the draws; NaN for a search.
     */
    double inclusion;
    /**
     * How many tokens it has.
     */
    size_t length;
    /**
     * Why it ended; `ONEDRAW_GOES_ON` if the search ended first.
     */
    onedraw_finish finish;
    /**
     * The id that ended it.
     */
    uint32_t by;
} onedraw_hypothesis;

/**
 * It was done.
 */
#define ONEDRAW_OK 0

/**
 * An argument cannot be used: NULL where a pointer is needed, not aligned, too large, not UTF-8, or a value that
 * has no meaning. The kind of the error is the argument's name. Nothing was changed.
 */
#define ONEDRAW_BAD_ARGUMENT 1

/**
 * The handle is NULL, was freed, or is not of this kind; or there are four million already. Nothing was changed.
 */
#define ONEDRAW_BAD_HANDLE 2

/**
 * Another thread uses the handle right now, or this thread does in an outer call. Nothing was changed.
 */
#define ONEDRAW_IN_USE 3

/**
 * A buffer is too small. The number that is needed was written to where the length is returned. Nothing else was
 * changed.
 */
#define ONEDRAW_TOO_SMALL 4

/**
 * A sampling parameter cannot be used. The kind of the error is its name.
 */
#define ONEDRAW_BAD_PARAMETER 5

/**
 * A row cannot be drawn from, by itself or with these parameters and this history. The kind of the error is one of the
 * library's: `nan_logit`, `outside_vocabulary`, `nothing_left`, … The history was not changed.
 */
#define ONEDRAW_BAD_ROW 6

/**
 * A vocabulary or a grammar cannot be used.
 */
#define ONEDRAW_BAD_GRAMMAR 7

/**
 * A text does not keep to its grammar, or cannot go on. The matcher was not changed.
 */
#define ONEDRAW_BAD_TEXT 8

/**
 * There is no result of that kind or number: nothing was drawn yet, or it was not asked for.
 */
#define ONEDRAW_NOTHING 9

/**
 * A mistake in onedraw. The handle cannot be used any more; free it. Please report the message.
 */
#define ONEDRAW_INTERNAL 10

/**
 * The sequence is not in the batch, or no longer (kind `unknown_sequence`), or has two rows in one call
 * (`repeated_sequence`). Its history was not changed.
 */
#define ONEDRAW_BAD_SEQUENCE 11

/**
 * 32-bit floats.
 */
#define ONEDRAW_F32 0

/**
 * IEEE half precision.
 */
#define ONEDRAW_F16 1

/**
 * bfloat16.
 */
#define ONEDRAW_BF16 2

/**
 * It has not ended.
 */
#define ONEDRAW_GOES_ON 0

/**
 * An id of `eos_token_id` came.
 */
#define ONEDRAW_EOS 1

/**
 * An id of `stop_token_ids` came.
 */
#define ONEDRAW_STOP_TOKEN 2

/**
 * A string of `stop` was completed.
 */
#define ONEDRAW_STOP_STRING 3

/**
 * `max_tokens` are written.
 */
#define ONEDRAW_LENGTH 4

/**
 * The text must not continue with this token.
 */
#define ONEDRAW_FORBIDDEN 5

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of the library, such as "0.1.0". The text lives as long as the program. Any thread may call it.
 */
const char *onedraw_version(void);

/**
 * The version of the streams: which token a seed draws. Two libraries with the same number draw the same
 * tokens. Any thread may call it.
 */
uint32_t onedraw_stream_version(void);

/**
 * The version of the interface that the library has: its `ONEDRAW_ABI`. Any thread may call it.
 */
uint32_t onedraw_abi(void);

/**
 * Writes parameters that have their defaults to `*params`. Free them with `onedraw_params_free`. Any thread may
 * call it.
 */
onedraw_status onedraw_params_new(struct onedraw_params **params,
                                  struct onedraw_error *error);

/**
 * Reads parameters from one JSON object, such as {"temperature": 0.8, "top_p": 0.9, "seed": 42}, and checks them.
 * An unknown name is an error. Any thread may call it.
 */
onedraw_status onedraw_params_from_json(const char *json,
                                        struct onedraw_params **params,
                                        struct onedraw_error *error);

/**
 * Makes the parameters of a preset: `creative`, `precise`, `balanced` or `deterministic`. Any thread may call it.
 */
onedraw_status onedraw_params_preset(const char *name,
                                     struct onedraw_params **params,
                                     struct onedraw_error *error);

/**
 * Reads the settings of another system from one JSON object. `source` is `openai`, `vllm`, `llama.cpp` or
 * `huggingface`; NULL: it is recognised by the fields. `notes` receives a line for each setting that was lost or
 * changed, with a zero at the end, and `*length` its bytes without the zero. If `notes` is too small,
 * `*params` is NULL. Any thread may call it.
 */
onedraw_status onedraw_params_import(const char *json,
                                     const char *source,
                                     struct onedraw_params **params,
                                     char *notes,
                                     size_t capacity,
                                     size_t *length,
                                     struct onedraw_error *error);

/**
 * Sets a parameter that is a number, such as `temperature` or `top_p`. Whether it is in its range is checked
 * when something is made of the parameters, or by `onedraw_params_check`. Any thread may call it.
 */
onedraw_status onedraw_params_set_number(struct onedraw_params *params,
                                         const char *name,
                                         double value,
                                         struct onedraw_error *error);

/**
 * Sets a parameter that is a whole number, such as `top_k`, `max_tokens` or `n`. Any thread may call it.
 */
onedraw_status onedraw_params_set_integer(struct onedraw_params *params,
                                          const char *name,
                                          int64_t value,
                                          struct onedraw_error *error);

/**
 * Sets the seed, any number of 64 bits. Any thread may call it.
 */
onedraw_status onedraw_params_set_seed(struct onedraw_params *params,
                                       uint64_t seed,
                                       struct onedraw_error *error);

/**
 * Sets a parameter that is true (not 0) or false (0), such as `ignore_eos`. Any thread may call it.
 */
onedraw_status onedraw_params_set_flag(struct onedraw_params *params,
                                       const char *name,
                                       int32_t value,
                                       struct onedraw_error *error);

/**
 * Sets a parameter that is a list of token ids, such as `prompt_token_ids` or `stop_token_ids`. Any thread may
 * call it.
 */
onedraw_status onedraw_params_set_ids(struct onedraw_params *params,
                                      const char *name,
                                      const uint32_t *ids,
                                      size_t count,
                                      struct onedraw_error *error);

/**
 * Sets a parameter that is a word, such as `logprobs_mode` or `order`. Any thread may call it.
 */
onedraw_status onedraw_params_set_text(struct onedraw_params *params,
                                       const char *name,
                                       const char *value,
                                       struct onedraw_error *error);

/**
 * Sets a parameter that is a list of strings, such as `stop` or `banned_strings`. Any thread may call it.
 */
onedraw_status onedraw_params_set_texts(struct onedraw_params *params,
                                        const char *name,
                                        const char *const *values,
                                        size_t count,
                                        struct onedraw_error *error);

/**
 * Sets any parameter from JSON, such as `logit_bias` from {"5": 1.5}. Any thread may call it.
 */
onedraw_status onedraw_params_set_json(struct onedraw_params *params,
                                       const char *name,
                                       const char *json,
                                       struct onedraw_error *error);

/**
 * Checks every parameter, as whatever is made of the parameters does. Any thread may call it.
 */
onedraw_status onedraw_params_check(const struct onedraw_params *params, struct onedraw_error *error);

/**
 * Writes all parameters as JSON, with a zero at the end; `*length` is the number of bytes without it. Any thread
 * may call it.
 */
onedraw_status onedraw_params_to_json(const struct onedraw_params *params,
                                      char *json,
                                      size_t capacity,
                                      size_t *length,
                                      struct onedraw_error *error);

/**
 * Frees parameters; NULL is nothing. What was made of them stays. Any thread may call it.
 */
onedraw_status onedraw_params_free(struct onedraw_params *params, struct onedraw_error *error);

/**
 * Writes records as a row of `vocabulary` logits, for `onedraw_row.logits`. A token without a record has -inf there,
 * and is not drawn. It allocates no memory. Any thread may call it.
 */
onedraw_status onedraw_row_from_records(const struct onedraw_records *records,
                                        float *logits,
                                        size_t vocabulary,
                                        struct onedraw_error *error);

/**
 * Makes a sampler of parameters, which are checked. Of `n` sequences it is the first. The parameters may be freed
 * after that. Any thread may call it.
 */
onedraw_status onedraw_sampler_new(const struct onedraw_params *params,
                                   struct onedraw_sampler **sampler,
                                   struct onedraw_error *error);

/**
 * Makes the sampler of one of the `n` sequences of the parameters, counted from 0. They share a seed that is
 * given, and differ in the noise. Any thread may call it.
 */
onedraw_status onedraw_sampler_new_sequence(const struct onedraw_params *params,
                                            uint32_t number,
                                            struct onedraw_sampler **sampler,
                                            struct onedraw_error *error);

/**
 * Makes a sampler with the same parameters, seed and history, which goes its own way. One thread at a time may
 * use the first.
 */
onedraw_status onedraw_sampler_clone(const struct onedraw_sampler *sampler,
                                     struct onedraw_sampler **clone,
                                     struct onedraw_error *error);

/**
 * Draws the next token from a row and appends it to the history. One thread at a time.
 *
 * The first draws allocate memory. After them one does so where logprobs or kept ids are asked for, where a row is longer
 * than those before it or needs another look, and where the history outgrows its memory: that has room for `max_tokens`
 * tokens, at most 1,024, and doubles then.
 */
onedraw_status onedraw_sampler_sample(struct onedraw_sampler *sampler,
                                      const struct onedraw_row *row,
                                      struct onedraw_sampled *sampled,
                                      struct onedraw_error *error);

/**
 * Draws `ahead` positions after the next one, and leaves the history as it is. One thread at a time.
 */
onedraw_status onedraw_sampler_peek(struct onedraw_sampler *sampler,
                                    const struct onedraw_row *row,
                                    uint32_t ahead,
                                    struct onedraw_sampled *sampled,
                                    struct onedraw_error *error);

/**
 * Draws the token at the share `uniform` in [0, 1) of the kept mass, for callers who have their own randomness,
 * and appends it to the history. The row must have no mask. One thread at a time.
 */
onedraw_status onedraw_sampler_sample_uniform(struct onedraw_sampler *sampler,
                                              const struct onedraw_row *row,
                                              double uniform,
                                              struct onedraw_sampled *sampled,
                                              struct onedraw_error *error);

/**
 * Frees a sampler; NULL is nothing. Any thread may call it. A call that another thread is in comes to its end.
 */
onedraw_status onedraw_sampler_free(struct onedraw_sampler *sampler,
                                    struct onedraw_error *error);

/**
 * Appends a token that was chosen elsewhere. Mirostat learns nothing from it. One thread at a time.
 */
onedraw_status onedraw_sampler_accept(struct onedraw_sampler *sampler,
                                      uint32_t token,
                                      struct onedraw_error *error);

/**
 * Appends a token that `onedraw_sampler_peek` or `onedraw_sampler_verify` drew at the next position, with what mirostat
 * learned from it. It is an error if it was drawn at another position, with another seed, or for another of the `n`
 * sequences. One thread at a time.
 */
onedraw_status onedraw_sampler_accept_sampled(struct onedraw_sampler *sampler,
                                              const struct onedraw_sampled *sampled,
                                              struct onedraw_error *error);

/**
 * Takes back the tokens after the first `length` of the output; a longer length changes nothing. This is an undo:
 * the same rows draw the same tokens again. One thread at a time.
 */
onedraw_status onedraw_sampler_rewind(struct onedraw_sampler *sampler,
                                      size_t length,
                                      struct onedraw_error *error);

/**
 * Takes back the tokens after the first `length` because of what was drawn, as a stop matcher decides: `token` is
 * banned at that position, and the next draw there has fresh noise. One thread at a time.
 */
onedraw_status onedraw_sampler_take_back(struct onedraw_sampler *sampler,
                                         size_t length,
                                         uint32_t token,
                                         struct onedraw_error *error);

/**
 * Replaces the prompt, where it is known only after the sampler was made. The output stays, and so does the position.
 * One thread at a time.
 */
onedraw_status onedraw_sampler_set_prompt(struct onedraw_sampler *sampler,
                                          const uint32_t *tokens,
                                          size_t count,
                                          struct onedraw_error *error);

/**
 * Makes the sampler what it was when it was made or loaded: the prompt and the output of its parameters, no bans, no
 * rewinds, mirostat where it began. The seed stays, one that was drawn from the system too, so the same rows draw the
 * same tokens again. One thread at a time.
 */
onedraw_status onedraw_sampler_reset(struct onedraw_sampler *sampler,
                                     struct onedraw_error *error);

/**
 * The tokens written so far, those of `output_token_ids` included. One thread at a time.
 */
onedraw_status onedraw_sampler_output(struct onedraw_sampler *sampler,
                                      uint32_t *tokens,
                                      size_t capacity,
                                      size_t *count,
                                      struct onedraw_error *error);

/**
 * The seed: the one that was given, or the one drawn from the system. One thread at a time.
 */
onedraw_status onedraw_sampler_seed(struct onedraw_sampler *sampler,
                                    uint64_t *seed,
                                    struct onedraw_error *error);

/**
 * Everything that a later draw depends on, as JSON: parameters, seed, tokens, mirostat's state, rewinds and bans.
 * One thread at a time.
 */
onedraw_status onedraw_sampler_save(struct onedraw_sampler *sampler,
                                    char *json,
                                    size_t capacity,
                                    size_t *length,
                                    struct onedraw_error *error);

/**
 * Makes the sampler that `onedraw_sampler_save` wrote. Any thread may call it.
 */
onedraw_status onedraw_sampler_load(const char *json,
                                    struct onedraw_sampler **sampler,
                                    struct onedraw_error *error);

/**
 * The drawn token and then the best others, where `logprobs` is set, of a token that the last call drew: `number` is 0
 * after a draw, and after `onedraw_sampler_verify` below its `*drawn`. Of a call that failed there are only the tokens
 * that a verification drew before. One thread at a time.
 */
onedraw_status onedraw_sampler_logprobs(struct onedraw_sampler *sampler,
                                        size_t number,
                                        struct onedraw_token_logprob *logprobs,
                                        size_t capacity,
                                        size_t *count,
                                        struct onedraw_error *error);

/**
 * The kept set of a token that the last call drew, as in `onedraw_sampler_logprobs`, where `kept` is `summary` or
 * `ids`. `ids` receives its ids in ascending order; with a summary there are none. One thread at a time.
 */
onedraw_status onedraw_sampler_kept(struct onedraw_sampler *sampler,
                                    size_t number,
                                    struct onedraw_kept *kept,
                                    uint32_t *ids,
                                    size_t capacity,
                                    size_t *count,
                                    struct onedraw_error *error);

/**
 * Every token that can be drawn from a row, in order, with its probability. As many as the vocabulary has are
 * always enough. One thread at a time.
 */
onedraw_status onedraw_sampler_distribution(struct onedraw_sampler *sampler,
                                            const struct onedraw_row *row,
                                            struct onedraw_probability *distribution,
                                            size_t capacity,
                                            size_t *count,
                                            struct onedraw_error *error);

/**
 * Finds out what each stage does to a row, as JSON for `onedraw_sampler_json`: for each stage the tokens left, the share
 * of the mass, the most likely tokens that it removes and leaves (`listed` of each), the entropy, and in the end the
 * token that is drawn. The history stays as it is. `*length` is the number of bytes. One thread at a time.
 */
onedraw_status onedraw_sampler_explain(struct onedraw_sampler *sampler,
                                       const struct onedraw_row *row,
                                       size_t listed,
                                       size_t *length,
                                       struct onedraw_error *error);

/**
 * Finds the logprobs of the prompt (`prompt_token_ids`), as a JSON list for `onedraw_sampler_json`: row i predicts
 * token i + 1. There is an entry for each token: null for the first, which nothing predicts, {"token", "logprob",
 * "probability", "rank", "logprobs"}, or {"error": {"kind", "message"}}. The best `prompt_logprobs` others are listed.
 * The rows are in one buffer and have no masks. `*length` is the number of bytes. One thread at a time.
 */
onedraw_status onedraw_sampler_prompt_logprobs(struct onedraw_sampler *sampler,
                                               const struct onedraw_rows *rows,
                                               size_t *length,
                                               struct onedraw_error *error);

/**
 * The JSON of the last `onedraw_sampler_explain` or `onedraw_sampler_prompt_logprobs`, with a zero at the end; `*length`
 * is the number of bytes without it. One thread at a time.
 */
onedraw_status onedraw_sampler_json(struct onedraw_sampler *sampler,
                                    char *json,
                                    size_t capacity,
                                    size_t *length,
                                    struct onedraw_error *error);

/**
 * The drawn token and then the best others, where `logprobs` is set, of a token that the last call drew: `number` is 0
 * after a draw, and after `onedraw_sampler_verify` below its `*drawn`. Of a call that failed there are only the tokens
 * that a verification drew before. One thread at a time.
 */
onedraw_status onedraw_sampler_logprobs(struct onedraw_sampler *sampler,
                                        size_t number,
                                        struct onedraw_token_logprob *logprobs,
                                        size_t capacity,
                                        size_t *count,
                                        struct onedraw_error *error);

/**
 * The kept set of a token that the last call drew, as in `onedraw_sampler_logprobs`, where `kept` is `summary` or
 * `ids`. `ids` receives its ids in ascending order; with a summary there are none. One thread at a time.
 */
onedraw_status onedraw_sampler_kept(struct onedraw_sampler *sampler,
                                    size_t number,
                                    struct onedraw_kept *kept,
                                    uint32_t *ids,
                                    size_t capacity,
                                    size_t *count,
                                    struct onedraw_error *error);

/**
 * Every token that can be drawn from a row, in order, with its probability. As many as the vocabulary has are
 * always enough. One thread at a time.
 */
onedraw_status onedraw_sampler_distribution(struct onedraw_sampler *sampler,
                                            const struct onedraw_row *row,
                                            struct onedraw_probability *distribution,
                                            size_t capacity,
                                            size_t *count,
                                            struct onedraw_error *error);

/**
 * Finds out what each stage does to a row, as JSON for `onedraw_sampler_json`: for each stage the tokens left, the share
 * of the mass, the most likely tokens that it removes and leaves (`listed` of each), the entropy, and in the end the
 * token that is drawn. The history stays as it is. `*length` is the number of bytes. One thread at a time.
 */
onedraw_status onedraw_sampler_explain(struct onedraw_sampler *sampler,
                                       const struct onedraw_row *row,
                                       size_t listed,
                                       size_t *length,
                                       struct onedraw_error *error);

/**
 * Finds the logprobs of the prompt (`prompt_token_ids`), as a JSON list for `onedraw_sampler_json`: row i predicts
 * token i + 1. There is an entry for each token: null for the first, which nothing predicts, {"token", "logprob",
 * "probability", "rank", "logprobs"}, or {"error": {"kind", "message"}}. The best `prompt_logprobs` others are listed.
 * The rows are in one buffer and have no masks. `*length` is the number of bytes. One thread at a time.
 */
onedraw_status onedraw_sampler_prompt_logprobs(struct onedraw_sampler *sampler,
                                               const struct onedraw_rows *rows,
                                               size_t *length,
                                               struct onedraw_error *error);

/**
 * The JSON of the last `onedraw_sampler_explain` or `onedraw_sampler_prompt_logprobs`, with a zero at the end; `*length`
 * is the number of bytes without it. One thread at a time.
 */
onedraw_status onedraw_sampler_json(struct onedraw_sampler *sampler,
                                    char *json,
                                    size_t capacity,
                                    size_t *length,
                                    struct onedraw_error *error);

/**
 * Appends a token that was chosen elsewhere. Mirostat learns nothing from it. One thread at a time.
 */
onedraw_status onedraw_sampler_accept(struct onedraw_sampler *sampler,
                                      uint32_t token,
                                      struct onedraw_error *error);

/**
 * Appends a token that `onedraw_sampler_peek` or `onedraw_sampler_verify` drew at the next position, with what mirostat
 * learned from it. It is an error if it was drawn at another position, with another seed, or for another of the `n`
 * sequences. One thread at a time.
 */
onedraw_status onedraw_sampler_accept_sampled(struct onedraw_sampler *sampler,
                                              const struct onedraw_sampled *sampled,
                                              struct onedraw_error *error);

/**
 * Takes back the tokens after the first `length` of the output; a longer length changes nothing. This is an undo:
 * the same rows draw the same tokens again. One thread at a time.
 */
onedraw_status onedraw_sampler_rewind(struct onedraw_sampler *sampler,
                                      size_t length,
                                      struct onedraw_error *error);

/**
 * Takes back the tokens after the first `length` because of what was drawn, as a stop matcher decides: `token` is
 * banned at that position, and the next draw there has fresh noise. One thread at a time.
 */
onedraw_status onedraw_sampler_take_back(struct onedraw_sampler *sampler,
                                         size_t length,
                                         uint32_t token,
                                         struct onedraw_error *error);

/**
 * Replaces the prompt, where it is known only after the sampler was made. The output stays, and so does the position.
 * One thread at a time.
 */
onedraw_status onedraw_sampler_set_prompt(struct onedraw_sampler *sampler,
                                          const uint32_t *tokens,
                                          size_t count,
                                          struct onedraw_error *error);

/**
 * Makes the sampler what it was when it was made or loaded: the prompt and the output of its parameters, no bans, no
 * rewinds, mirostat where it began. The seed stays, one that was drawn from the system too, so the same rows draw the
 * same tokens again. One thread at a time.
 */
onedraw_status onedraw_sampler_reset(struct onedraw_sampler *sampler,
                                     struct onedraw_error *error);

/**
 * The tokens written so far, those of `output_token_ids` included. One thread at a time.
 */
onedraw_status onedraw_sampler_output(struct onedraw_sampler *sampler,
                                      uint32_t *tokens,
                                      size_t capacity,
                                      size_t *count,
                                      struct onedraw_error *error);

/**
 * The seed: the one that was given, or the one drawn from the system. One thread at a time.
 */
onedraw_status onedraw_sampler_seed(struct onedraw_sampler *sampler,
                                    uint64_t *seed,
                                    struct onedraw_error *error);

/**
 * Everything that a later draw depends on, as JSON: parameters, seed, tokens, mirostat's state, rewinds and bans.
 * One thread at a time.
 */
onedraw_status onedraw_sampler_save(struct onedraw_sampler *sampler,
                                    char *json,
                                    size_t capacity,
                                    size_t *length,
                                    struct onedraw_error *error);

/**
 * Makes the sampler that `onedraw_sampler_save` wrote. Any thread may call it.
 */
onedraw_status onedraw_sampler_load(const char *json,
                                    struct onedraw_sampler **sampler,
                                    struct onedraw_error *error);

/**
 * Makes a batch without sequences, which draws on so many threads; 0: one for each core. Any thread may call it.
 */
onedraw_status onedraw_batch_new(size_t threads,
                                 struct onedraw_batch **batch,
                                 struct onedraw_error *error);

/**
 * Adds a sequence: the first of the `n` that the parameters ask for. One thread at a time.
 */
onedraw_status onedraw_batch_add(struct onedraw_batch *batch,
                                 const struct onedraw_params *params,
                                 onedraw_sequence *sequence,
                                 struct onedraw_error *error);

/**
 * Adds all `n` sequences of the parameters, which share one seed. One thread at a time.
 */
onedraw_status onedraw_batch_add_all(struct onedraw_batch *batch,
                                     const struct onedraw_params *params,
                                     onedraw_sequence *sequences,
                                     size_t capacity,
                                     size_t *count,
                                     struct onedraw_error *error);

/**
 * Adds a sequence with the same parameters, seed and history as another one, which goes its own way. One thread at a
 * time.
 */
onedraw_status onedraw_batch_fork(struct onedraw_batch *batch,
                                  onedraw_sequence sequence,
                                  onedraw_sequence *fork,
                                  struct onedraw_error *error);

/**
 * The number of sequences. One thread at a time.
 */
onedraw_status onedraw_batch_count(struct onedraw_batch *batch, size_t *count, struct onedraw_error *error);

/**
 * Draws a token from each row for the sequence of that number, and appends it. `sequences` and `sampled` have as many
 * entries as there are rows. A bad row spoils no other: its `status` is not `ONEDRAW_OK`, and the function returns the
 * first such status, with its row's words. Where one thread draws, it allocates memory as `onedraw_sampler_sample` does.
 * One thread at a time.
 */
onedraw_status onedraw_batch_sample(struct onedraw_batch *batch,
                                    const onedraw_sequence *sequences,
                                    const struct onedraw_rows *rows,
                                    struct onedraw_sampled *sampled,
                                    struct onedraw_error *error);

/**
 * As `onedraw_batch_sample`, `ahead` positions after each sequence's next one. The histories stay as they are. One
 * thread at a time.
 */
onedraw_status onedraw_batch_peek(struct onedraw_batch *batch,
                                  const onedraw_sequence *sequences,
                                  const struct onedraw_rows *rows,
                                  uint32_t ahead,
                                  struct onedraw_sampled *sampled,
                                  struct onedraw_error *error);

/**
 * The words for a row that the last call could not draw from, in `*of_row`. Its status is `ONEDRAW_OK` if the row
 * was drawn from. After `onedraw_batch_verify` a row is a token that it drew. One thread at a time.
 */
onedraw_status onedraw_batch_row_error(struct onedraw_batch *batch,
                                       size_t row,
                                       struct onedraw_error *of_row,
                                       struct onedraw_error *error);

/**
 * Frees a batch and all of its sequences; NULL is nothing. Any thread may call it. A call that another thread is in
 * comes to its end.
 */
onedraw_status onedraw_batch_free(struct onedraw_batch *batch,
                                  struct onedraw_error *error);

/**
 * Removes a sequence. One thread at a time.
 */
onedraw_status onedraw_batch_remove(struct onedraw_batch *batch,
                                    onedraw_sequence sequence,
                                    struct onedraw_error *error);

/**
 * Appends a token that was chosen elsewhere. Mirostat learns nothing from it. One thread at a time.
 */
onedraw_status onedraw_batch_accept(struct onedraw_batch *batch,
                                    onedraw_sequence sequence,
                                    uint32_t token,
                                    struct onedraw_error *error);

/**
 * Appends a token that was drawn for the sequence at the next position, by `onedraw_batch_peek` or
 * `onedraw_batch_verify`, with what mirostat learned from it. It is an error if it was drawn at another position,
 * with another seed, or for another of the `n` sequences. One thread at a time.
 */
onedraw_status onedraw_batch_accept_sampled(struct onedraw_batch *batch,
                                            onedraw_sequence sequence,
                                            const struct onedraw_sampled *sampled,
                                            struct onedraw_error *error);

/**
 * Takes back a sequence's tokens after the first `length` of its output; see `onedraw_sampler_rewind`. One thread at a
 * time.
 */
onedraw_status onedraw_batch_rewind(struct onedraw_batch *batch,
                                    onedraw_sequence sequence,
                                    size_t length,
                                    struct onedraw_error *error);

/**
 * Takes back a sequence's tokens because of what was drawn; see `onedraw_sampler_take_back`. One thread at a time.
 */
onedraw_status onedraw_batch_take_back(struct onedraw_batch *batch,
                                       onedraw_sequence sequence,
                                       size_t length,
                                       uint32_t token,
                                       struct onedraw_error *error);

/**
 * Replaces the prompt of a sequence; see `onedraw_sampler_set_prompt`. One thread at a time.
 */
onedraw_status onedraw_batch_set_prompt(struct onedraw_batch *batch,
                                        onedraw_sequence sequence,
                                        const uint32_t *tokens,
                                        size_t count,
                                        struct onedraw_error *error);

/**
 * Makes a sequence what it was when it was added or loaded; see `onedraw_sampler_reset`. One thread at a time.
 */
onedraw_status onedraw_batch_reset(struct onedraw_batch *batch,
                                   onedraw_sequence sequence,
                                   struct onedraw_error *error);

/**
 * The tokens that a sequence has written so far. One thread at a time.
 */
onedraw_status onedraw_batch_output(struct onedraw_batch *batch,
                                    onedraw_sequence sequence,
                                    uint32_t *tokens,
                                    size_t capacity,
                                    size_t *count,
                                    struct onedraw_error *error);

/**
 * The seed of a sequence. One thread at a time.
 */
onedraw_status onedraw_batch_seed(struct onedraw_batch *batch,
                                  onedraw_sequence sequence,
                                  uint64_t *seed,
                                  struct onedraw_error *error);

/**
 * Everything that later draws of a sequence depend on, as JSON. A sampler can load it too. One thread at a time.
 */
onedraw_status onedraw_batch_save(struct onedraw_batch *batch,
                                  onedraw_sequence sequence,
                                  char *json,
                                  size_t capacity,
                                  size_t *length,
                                  struct onedraw_error *error);

/**
 * Adds a sequence that `onedraw_batch_save` or `onedraw_sampler_save` wrote. One thread at a time.
 */
onedraw_status onedraw_batch_load(struct onedraw_batch *batch,
                                  const char *json,
                                  onedraw_sequence *sequence,
                                  struct onedraw_error *error);

/**
 * The drawn token and then the best others, of a row of the last call, where `logprobs` is set. After
 * `onedraw_batch_verify` the rows 0 to `*drawn` - 1 are the tokens that it drew. One thread at a time.
 */
onedraw_status onedraw_batch_logprobs(struct onedraw_batch *batch,
                                      size_t row,
                                      struct onedraw_token_logprob *logprobs,
                                      size_t capacity,
                                      size_t *count,
                                      struct onedraw_error *error);

/**
 * The kept set of a row of the last call, as in `onedraw_batch_logprobs`, where `kept` is `summary` or `ids`. `ids`
 * receives its ids in ascending order; with a summary there are none. One thread at a time.
 */
onedraw_status onedraw_batch_kept(struct onedraw_batch *batch,
                                  size_t row,
                                  struct onedraw_kept *kept,
                                  uint32_t *ids,
                                  size_t capacity,
                                  size_t *count,
                                  struct onedraw_error *error);

/**
 * Every token that a sequence can draw from a row, in order, with its probability. One thread at a time.
 */
onedraw_status onedraw_batch_distribution(struct onedraw_batch *batch,
                                          onedraw_sequence sequence,
                                          const struct onedraw_row *row,
                                          struct onedraw_probability *distribution,
                                          size_t capacity,
                                          size_t *count,
                                          struct onedraw_error *error);

/**
 * Finds out what each stage of a sequence does to a row, as JSON for `onedraw_batch_json`; see
 * `onedraw_sampler_explain`. One thread at a time.
 */
onedraw_status onedraw_batch_explain(struct onedraw_batch *batch,
                                     onedraw_sequence sequence,
                                     const struct onedraw_row *row,
                                     size_t listed,
                                     size_t *length,
                                     struct onedraw_error *error);

/**
 * The JSON of the last `onedraw_batch_explain`, with a zero at the end; `*length` is the number of bytes without it. One
 * thread at a time.
 */
onedraw_status onedraw_batch_json(struct onedraw_batch *batch,
                                  char *json,
                                  size_t capacity,
                                  size_t *length,
                                  struct onedraw_error *error);

/**
 * The first `capacity` tokens of the race of a sequence's draw: the one that it would draw, then what it would have
 * drawn without that one. A drafter guesses with these: a target with nearly the same logits draws one of them. The
 * history stays as it is. One thread at a time.
 */
onedraw_status onedraw_batch_runners(struct onedraw_batch *batch,
                                     onedraw_sequence sequence,
                                     const struct onedraw_row *row,
                                     struct onedraw_runner *runners,
                                     size_t capacity,
                                     size_t *count,
                                     struct onedraw_error *error);

/**
 * The drawn token and then the best others, of a row of the last call, where `logprobs` is set. After
 * `onedraw_batch_verify` the rows 0 to `*drawn` - 1 are the tokens that it drew. One thread at a time.
 */
onedraw_status onedraw_batch_logprobs(struct onedraw_batch *batch,
                                      size_t row,
                                      struct onedraw_token_logprob *logprobs,
                                      size_t capacity,
                                      size_t *count,
                                      struct onedraw_error *error);

/**
 * The kept set of a row of the last call, as in `onedraw_batch_logprobs`, where `kept` is `summary` or `ids`. `ids`
 * receives its ids in ascending order; with a summary there are none. One thread at a time.
 */
onedraw_status onedraw_batch_kept(struct onedraw_batch *batch,
                                  size_t row,
                                  struct onedraw_kept *kept,
                                  uint32_t *ids,
                                  size_t capacity,
                                  size_t *count,
                                  struct onedraw_error *error);

/**
 * Every token that a sequence can draw from a row, in order, with its probability. One thread at a time.
 */
onedraw_status onedraw_batch_distribution(struct onedraw_batch *batch,
                                          onedraw_sequence sequence,
                                          const struct onedraw_row *row,
                                          struct onedraw_probability *distribution,
                                          size_t capacity,
                                          size_t *count,
                                          struct onedraw_error *error);

/**
 * Finds out what each stage of a sequence does to a row, as JSON for `onedraw_batch_json`; see
 * `onedraw_sampler_explain`. One thread at a time.
 */
onedraw_status onedraw_batch_explain(struct onedraw_batch *batch,
                                     onedraw_sequence sequence,
                                     const struct onedraw_row *row,
                                     size_t listed,
                                     size_t *length,
                                     struct onedraw_error *error);

/**
 * The JSON of the last `onedraw_batch_explain`, with a zero at the end; `*length` is the number of bytes without it. One
 * thread at a time.
 */
onedraw_status onedraw_batch_json(struct onedraw_batch *batch,
                                  char *json,
                                  size_t capacity,
                                  size_t *length,
                                  struct onedraw_error *error);

/**
 * The first `capacity` tokens of the race of a sequence's draw: the one that it would draw, then what it would have
 * drawn without that one. A drafter guesses with these: a target with nearly the same logits draws one of them. The
 * history stays as it is. One thread at a time.
 */
onedraw_status onedraw_batch_runners(struct onedraw_batch *batch,
                                     onedraw_sequence sequence,
                                     const struct onedraw_row *row,
                                     struct onedraw_runner *runners,
                                     size_t capacity,
                                     size_t *count,
                                     struct onedraw_error *error);

/**
 * Removes a sequence. One thread at a time.
 */
onedraw_status onedraw_batch_remove(struct onedraw_batch *batch,
                                    onedraw_sequence sequence,
                                    struct onedraw_error *error);

/**
 * Appends a token that was chosen elsewhere. Mirostat learns nothing from it. One thread at a time.
 */
onedraw_status onedraw_batch_accept(struct onedraw_batch *batch,
                                    onedraw_sequence sequence,
                                    uint32_t token,
                                    struct onedraw_error *error);

/**
 * Appends a token that was drawn for the sequence at the next position, by `onedraw_batch_peek` or
 * `onedraw_batch_verify`, with what mirostat learned from it. It is an error if it was drawn at another position,
 * with another seed, or for another of the `n` sequences. One thread at a time.
 */
onedraw_status onedraw_batch_accept_sampled(struct onedraw_batch *batch,
                                            onedraw_sequence sequence,
                                            const struct onedraw_sampled *sampled,
                                            struct onedraw_error *error);

/**
 * Takes back a sequence's tokens after the first `length` of its output; see `onedraw_sampler_rewind`. One thread at a
 * time.
 */
onedraw_status onedraw_batch_rewind(struct onedraw_batch *batch,
                                    onedraw_sequence sequence,
                                    size_t length,
                                    struct onedraw_error *error);

/**
 * Takes back a sequence's tokens because of what was drawn; see `onedraw_sampler_take_back`. One thread at a time.
 */
onedraw_status onedraw_batch_take_back(struct onedraw_batch *batch,
                                       onedraw_sequence sequence,
                                       size_t length,
                                       uint32_t token,
                                       struct onedraw_error *error);

/**
 * Replaces the prompt of a sequence; see `onedraw_sampler_set_prompt`. One thread at a time.
 */
onedraw_status onedraw_batch_set_prompt(struct onedraw_batch *batch,
                                        onedraw_sequence sequence,
                                        const uint32_t *tokens,
                                        size_t count,
                                        struct onedraw_error *error);

/**
 * Makes a sequence what it was when it was added or loaded; see `onedraw_sampler_reset`. One thread at a time.
 */
onedraw_status onedraw_batch_reset(struct onedraw_batch *batch,
                                   onedraw_sequence sequence,
                                   struct onedraw_error *error);

/**
 * The tokens that a sequence has written so far. One thread at a time.
 */
onedraw_status onedraw_batch_output(struct onedraw_batch *batch,
                                    onedraw_sequence sequence,
                                    uint32_t *tokens,
                                    size_t capacity,
                                    size_t *count,
                                    struct onedraw_error *error);

/**
 * The seed of a sequence. One thread at a time.
 */
onedraw_status onedraw_batch_seed(struct onedraw_batch *batch,
                                  onedraw_sequence sequence,
                                  uint64_t *seed,
                                  struct onedraw_error *error);

/**
 * Everything that later draws of a sequence depend on, as JSON. A sampler can load it too. One thread at a time.
 */
onedraw_status onedraw_batch_save(struct onedraw_batch *batch,
                                  onedraw_sequence sequence,
                                  char *json,
                                  size_t capacity,
                                  size_t *length,
                                  struct onedraw_error *error);

/**
 * Adds a sequence that `onedraw_batch_save` or `onedraw_sampler_save` wrote. One thread at a time.
 */
onedraw_status onedraw_batch_load(struct onedraw_batch *batch,
                                  const char *json,
                                  onedraw_sequence *sequence,
                                  struct onedraw_error *error);

/**
 * Verifies guesses exactly: at each of them the target makes its own draw, with the noise of that position, and goes
 * on where a guess is the drawn token. So the text is that of plain decoding, whatever is guessed.
 *
 * Row 0 has the target's logits after the text, row i + 1 those after guess i. `sampled` and `path` have room for
 * `capacity` entries each, at least one more than there are guesses. `*drawn` tokens were drawn: those of the
 * accepted guesses, whose numbers `path` receives, and the one after them; so there are `*drawn` - 1 accepted ones.
 * If a row cannot be drawn from, `ONEDRAW_BAD_ROW` is returned, and `*drawn` tokens before it were accepted.
 * `onedraw_sampler_logprobs` and `onedraw_sampler_kept` have each of the tokens.
 *
 * The sampler and the matcher (NULL: no grammar) are left as they are. Append the tokens that you use with
 * `onedraw_sampler_accept_sampled`. One thread at a time may use the sampler and the matcher.
 */
onedraw_status onedraw_sampler_verify(struct onedraw_sampler *sampler,
                                      const struct onedraw_draft *draft,
                                      const struct onedraw_rows *rows,
                                      struct onedraw_matcher *matcher,
                                      struct onedraw_sampled *sampled,
                                      size_t *path,
                                      size_t capacity,
                                      size_t *drawn,
                                      struct onedraw_error *error);

/**
 * As `onedraw_sampler_verify`, for a sequence of a batch. To `onedraw_batch_logprobs`, `onedraw_batch_kept` and
 * `onedraw_batch_row_error` the tokens are rows, and the one that cannot be drawn is row `*drawn`. Append the tokens that
 * you use with `onedraw_batch_accept_sampled`. One thread at a time may use the batch and the matcher.
 */
onedraw_status onedraw_batch_verify(struct onedraw_batch *batch,
                                    onedraw_sequence sequence,
                                    const struct onedraw_draft *draft,
                                    const struct onedraw_rows *rows,
                                    struct onedraw_matcher *matcher,
                                    struct onedraw_sampled *sampled,
                                    size_t *path,
                                    size_t capacity,
                                    size_t *drawn,
                                    struct onedraw_error *error);

/**
 * Makes a stop matcher of parameters: `stop`, `stop_token_ids`, `eos_token_id`, `banned_strings`, `min_tokens`,
 * `max_tokens` and what goes with them. Any thread may call it.
 */
onedraw_status onedraw_stop_new(const struct onedraw_params *params,
                                struct onedraw_stop **stop,
                                struct onedraw_error *error);

/**
 * Makes a stop matcher at the same place of the text, which goes its own way. One thread at a time may use the first.
 */
onedraw_status onedraw_stop_clone(const struct onedraw_stop *stop,
                                  struct onedraw_stop **clone,
                                  struct onedraw_error *error);

/**
 * Takes a token and the bytes that it stands for. What may be shown now is fetched with `onedraw_stop_text`. Once the
 * text has ended, tokens are ignored. One thread at a time.
 */
onedraw_status onedraw_stop_push(struct onedraw_stop *stop,
                                 uint32_t token,
                                 const uint8_t *bytes,
                                 size_t length,
                                 struct onedraw_progress *progress,
                                 struct onedraw_error *error);

/**
 * Ends the text from outside. What was held back, because it might have become a stop string, is fetched with
 * `onedraw_stop_text`; `*shown` is the number of its bytes. One thread at a time.
 */
onedraw_status onedraw_stop_finish(struct onedraw_stop *stop, size_t *shown, struct onedraw_error *error);

/**
 * The bytes that the last `onedraw_stop_push` or `onedraw_stop_finish` shows, to follow those shown before. They are
 * never taken back. They may end inside of a UTF-8 character, as tokens do, and have no zero at the end. One thread at a
 * time.
 */
onedraw_status onedraw_stop_text(struct onedraw_stop *stop,
                                 uint8_t *bytes,
                                 size_t capacity,
                                 size_t *length,
                                 struct onedraw_error *error);

/**
 * The bytes that are held back now. One thread at a time.
 */
onedraw_status onedraw_stop_held_back(struct onedraw_stop *stop,
                                      uint8_t *bytes,
                                      size_t capacity,
                                      size_t *length,
                                      struct onedraw_error *error);

/**
 * Frees a stop matcher; NULL is nothing. Any thread may call it.
 */
onedraw_status onedraw_stop_free(struct onedraw_stop *stop, struct onedraw_error *error);

/**
 * Makes a vocabulary of the bytes of all tokens, one after the other: token i has those from `offsets[i]` up to
 * `offsets[i + 1]`, so there are `count` + 1 offsets. There are as many tokens as the model has logits. Tokens
 * without bytes, and the `special` ones, which are marks and not text, are never allowed. `eos` are those that end
 * a text, at least one. It takes a second or two for 200,000 tokens. Any thread may call it.
 */
onedraw_status onedraw_vocabulary_new(const uint8_t *bytes,
                                      const size_t *offsets,
                                      size_t count,
                                      const uint32_t *eos,
                                      size_t eos_count,
                                      const uint32_t *special,
                                      size_t special_count,
                                      struct onedraw_vocabulary **vocabulary,
                                      struct onedraw_error *error);

/**
 * Frees a vocabulary; NULL is nothing. Grammars that were made for it stay. Any thread may call it.
 */
onedraw_status onedraw_vocabulary_free(struct onedraw_vocabulary *vocabulary, struct onedraw_error *error);

/**
 * Compiles a grammar. `kind` says what `text` is: `json_schema`, `compact_json_schema` (without white space between
 * the parts), `regex`, `choices` (a JSON list of texts, one of which is written) or `grammar` (Lark, or llguidance's
 * JSON). Any thread may call it.
 */
onedraw_status onedraw_grammar_new(const struct onedraw_vocabulary *vocabulary,
                                   const char *kind,
                                   const char *text,
                                   struct onedraw_grammar **grammar,
                                   struct onedraw_error *error);

/**
 * Frees a grammar; NULL is nothing. Matchers of it stay. Any thread may call it.
 */
onedraw_status onedraw_grammar_free(struct onedraw_grammar *grammar, struct onedraw_error *error);

/**
 * Begins a text that follows a grammar. Any thread may call it.
 */
onedraw_status onedraw_matcher_new(const struct onedraw_grammar *grammar,
                                   struct onedraw_matcher **matcher,
                                   struct onedraw_error *error);

/**
 * Makes a matcher at the same place of the text, which goes its own way. One thread at a time may use the first.
 */
onedraw_status onedraw_matcher_clone(const struct onedraw_matcher *matcher,
                                     struct onedraw_matcher **clone,
                                     struct onedraw_error *error);

/**
 * The tokens that may come next, 32 in each word, lowest bit first, for `onedraw_row.mask`. There are (tokens + 31) / 32
 * words. One thread at a time.
 */
onedraw_status onedraw_matcher_mask(struct onedraw_matcher *matcher,
                                    uint32_t *words,
                                    size_t capacity,
                                    size_t *count,
                                    struct onedraw_error *error);

/**
 * The tokens that must come next because the grammar leaves no choice, as far as that is known; they need no draw.
 * One thread at a time.
 */
onedraw_status onedraw_matcher_forced(struct onedraw_matcher *matcher,
                                      uint32_t *tokens,
                                      size_t capacity,
                                      size_t *count,
                                      struct onedraw_error *error);

/**
 * Adds a token to the text. `ONEDRAW_BAD_TEXT` if it does not fit, which changes nothing. One thread at a time.
 */
onedraw_status onedraw_matcher_accept(struct onedraw_matcher *matcher,
                                      uint32_t token,
                                      struct onedraw_error *error);

/**
 * Takes the last `tokens` tokens back. One thread at a time.
 */
onedraw_status onedraw_matcher_rollback(struct onedraw_matcher *matcher,
                                        size_t tokens,
                                        struct onedraw_error *error);

/**
 * Whether the text may end here: 1 or 0. One thread at a time.
 */
onedraw_status onedraw_matcher_may_end(struct onedraw_matcher *matcher,
                                       int32_t *may_end,
                                       struct onedraw_error *error);

/**
 * Frees a matcher; NULL is nothing. Any thread may call it.
 */
onedraw_status onedraw_matcher_free(struct onedraw_matcher *matcher, struct onedraw_error *error);

/**
 * Begins a search. `settings` is a JSON object with what is not its default: {"beams": 4, "style": "hf" (or "vllm",
 * "gnmt"), "length_penalty": 1, "early_stopping": "heuristic" (or "full", "never"), "beam_groups": 1,
 * "diversity_penalty": 0, "stochastic": false}; NULL: all defaults. Of the parameters the edits act, `max_tokens`, the
 * ids that end a text, and `n`, the number of texts to return. With "stochastic" texts are drawn without replacement
 * instead, and temperature and truncations act too. Any thread may call it.
 */
onedraw_status onedraw_beams_new(const struct onedraw_params *params,
                                 const char *settings,
                                 struct onedraw_beams **beams,
                                 struct onedraw_error *error);

/**
 * The number of beams, which is the number of rows that the next step needs; 0 once the search is over. `*is_done` is 1
 * if it has come to its end, else 0. One thread at a time.
 */
onedraw_status onedraw_beams_count(struct onedraw_beams *beams,
                                   size_t *count,
                                   int32_t *is_done,
                                   struct onedraw_error *error);

/**
 * The tokens that a beam has written. One thread at a time.
 */
onedraw_status onedraw_beams_tokens(struct onedraw_beams *beams,
                                    size_t beam,
                                    uint32_t *tokens,
                                    size_t capacity,
                                    size_t *count,
                                    struct onedraw_error *error);

/**
 * Adds one token to every beam. Row i is the row after beam i. Ids of `eos_token_id` and `stop_token_ids` end a text;
 * `continuation` (NULL: nothing else does) is asked about the other tokens, with `context`. `branches` has room for
 * `capacity` entries, at least as many as the setting `beams`; `*count` of them say where the beams of the next step come
 * from. If a row cannot be used, or an answer has no meaning, the search is over. One thread at a time.
 */
onedraw_status onedraw_beams_step(struct onedraw_beams *beams,
                                  const struct onedraw_rows *rows,
                                  onedraw_continuation continuation,
                                  void *context,
                                  struct onedraw_branch *branches,
                                  size_t capacity,
                                  size_t *count,
                                  struct onedraw_error *error);

/**
 * Ends the search. `*count` texts were found, which `onedraw_beams_text` returns, the best first. One thread at a time.
 */
onedraw_status onedraw_beams_finish(struct onedraw_beams *beams,
                                    size_t *count,
                                    struct onedraw_error *error);

/**
 * A text that was found, and its tokens after the prompt. One thread at a time.
 */
onedraw_status onedraw_beams_text(struct onedraw_beams *beams,
                                  size_t number,
                                  struct onedraw_hypothesis *text,
                                  uint32_t *tokens,
                                  size_t capacity,
                                  size_t *count,
                                  struct onedraw_error *error);

/**
 * Frees beams; NULL is nothing. Any thread may call it.
 */
onedraw_status onedraw_beams_free(struct onedraw_beams *beams, struct onedraw_error *error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ONEDRAW_H */
