"""How many bits a model needs for each byte of a text, each story by itself, its end counted.

A story longer than the model's context is scored in windows, each half a context after the one before and each, like every text the model was
trained on, behind the token that begins a story. What two windows hold is scored by the earlier one.
"""

import math

import torch
import torch.nn.functional as F


def windows(tokenizer, stories, context):
    """(tokens, how many of them are not scored: the first, and those that the window before scored)."""
    for encoding in tokenizer.encode_batch_fast(stories):
        tokens, scored, first = encoding.ids[1:] + [0], 0, 0
        while scored < len(tokens):
            yield [0] + tokens[first : first + context], 1 + scored - first
            scored = min(len(tokens), first + context)
            first += context // 2


def batches(tokenizer, stories, context, rows=64):
    """Windows of like length together, padded, and which of their tokens are scored."""
    every = sorted(windows(tokenizer, stories, context), key=lambda window: len(window[0]))
    for start in range(0, len(every), rows):
        batch = every[start : start + rows]
        tokens = torch.zeros(len(batch), len(batch[-1][0]), dtype=torch.long)
        scored = torch.zeros_like(tokens, dtype=torch.bool)
        for row, (ids, known) in enumerate(batch):
            tokens[row, : len(ids)] = torch.tensor(ids)
            scored[row, known : len(ids)] = True
        yield tokens, scored


@torch.no_grad()
def bits(model, tokenizer, stories, states_of):
    device = next(model.parameters()).device
    nats = torch.zeros((), dtype=torch.float64, device=device)
    for tokens, scored in batches(tokenizer, stories, model.shape.context):
        tokens, scored = tokens.to(device), scored.to(device)
        logits = model.logits(states_of(tokens[:, :-1])).float()
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
        nats += (loss * scored[:, 1:].flatten()).sum(dtype=torch.float64)
    return round(nats.item() / math.log(2) / sum(len(story.encode()) for story in stories), 4)


def bits_per_byte(model, tokenizer, stories):
    return bits(model, tokenizer, stories, lambda tokens: model.states(tokens)[0])


def exit_bits(model, tokenizer, stories, leaves_at):
    """The same, leaving after a layer."""
    return bits(model, tokenizer, stories, lambda tokens: model.states(tokens, (leaves_at,))[1][0])
