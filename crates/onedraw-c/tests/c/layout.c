/* Where the members of structs are. These are the numbers of ONEDRAW_ABI 1: a change of one is another number. */
#include "check.h"

#define SIZE(type, size) _Static_assert(sizeof(type) == (size), #type)
#define AT(type, member, offset) _Static_assert(offsetof(type, member) == (offset), #type "." #member)

_Static_assert(ONEDRAW_ABI == 1, "another ABI has other numbers below");
SIZE(onedraw_status, 4);
SIZE(onedraw_sequence, 8);
SIZE(onedraw_finish, 4);

SIZE(onedraw_error, 512);
AT(onedraw_error, status, 0);
AT(onedraw_error, length, 4);
AT(onedraw_error, kind, 8);
AT(onedraw_error, message, 56);

SIZE(onedraw_row, 32);
AT(onedraw_row, logits, 0);
AT(onedraw_row, vocabulary, 8);
AT(onedraw_row, dtype, 16);
AT(onedraw_row, mask_words, 20);
AT(onedraw_row, mask, 24);

SIZE(onedraw_rows, 56);
AT(onedraw_rows, logits, 0);
AT(onedraw_rows, count, 8);
AT(onedraw_rows, vocabulary, 16);
AT(onedraw_rows, stride, 24);
AT(onedraw_rows, dtype, 32);
AT(onedraw_rows, mask_words, 36);
AT(onedraw_rows, masks, 40);
AT(onedraw_rows, pointers, 48);

SIZE(onedraw_records, 32);
AT(onedraw_records, ids, 0);
AT(onedraw_records, logits, 8);
AT(onedraw_records, count, 16);
AT(onedraw_records, stride, 24);

SIZE(onedraw_sampled, 56);
AT(onedraw_sampled, status, 0);
AT(onedraw_sampled, token, 4);
AT(onedraw_sampled, position, 8);
AT(onedraw_sampled, sequence, 12);
AT(onedraw_sampled, seed, 16);
AT(onedraw_sampled, probability, 24);
AT(onedraw_sampled, logprob, 32);
AT(onedraw_sampled, mirostat_mu, 40);
AT(onedraw_sampled, rank, 48);
AT(onedraw_sampled, logprobs, 52);

SIZE(onedraw_token_logprob, 16);
AT(onedraw_token_logprob, token, 0);
AT(onedraw_token_logprob, rank, 4);
AT(onedraw_token_logprob, logprob, 8);

SIZE(onedraw_probability, 24);
AT(onedraw_probability, token, 0);
AT(onedraw_probability, probability, 8);
AT(onedraw_probability, logprob, 16);

SIZE(onedraw_kept, 24);
AT(onedraw_kept, count, 0);
AT(onedraw_kept, is_prefix, 4);
AT(onedraw_kept, last_token, 8);
AT(onedraw_kept, last_logit, 12);
AT(onedraw_kept, ln_mass, 16);

SIZE(onedraw_runner, 16);
AT(onedraw_runner, token, 0);
AT(onedraw_runner, behind, 8);

SIZE(onedraw_draft, 24);
AT(onedraw_draft, tokens, 0);
AT(onedraw_draft, parents, 8);
AT(onedraw_draft, count, 16);

SIZE(onedraw_progress, 32);
AT(onedraw_progress, shown, 0);
AT(onedraw_progress, finish, 8);
AT(onedraw_progress, by, 12);
AT(onedraw_progress, rewinds, 16);
AT(onedraw_progress, rewind_token, 20);
AT(onedraw_progress, rewind_length, 24);

SIZE(onedraw_branch, 8);
AT(onedraw_branch, beam, 0);
AT(onedraw_branch, token, 4);

SIZE(onedraw_hypothesis, 40);
AT(onedraw_hypothesis, score, 0);
AT(onedraw_hypothesis, logprob, 8);
AT(onedraw_hypothesis, inclusion, 16);
AT(onedraw_hypothesis, length, 24);
AT(onedraw_hypothesis, finish, 32);
AT(onedraw_hypothesis, by, 36);
