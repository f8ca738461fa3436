"""How many bits a model needs for each byte of a text, each story by itself, its end counted: `python evaluate.py STORIES MODEL`.

A story longer than the model's context is scored in windows, each half a context after the one before and each, like every text the model was
trained on, behind the token that begins a story. What two windows hold is scored by the earlier one. Figures of the stories that fit are given
by themselves: the model was never asked to go on with the middle of one.
"""

import argparse
import json
import math
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

import text
from llama import Llama


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
def score(model, tokenizer, stories, exit=None):
    """Bits a byte and perplexity a token, after all layers or leaving after one."""
    device = next(model.parameters()).device
    nats, count = torch.zeros((), dtype=torch.float64, device=device), 0
    for tokens, scored in batches(tokenizer, stories, model.shape.context):
        tokens, scored = tokens.to(device), scored.to(device)
        states, early = model.states(tokens[:, :-1], (exit,))
        logits = model.logits(states if exit is None else early[0]).float()
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
        nats += (loss * scored[:, 1:].flatten()).sum(dtype=torch.float64)
        count += int(scored.sum())
    size = sum(len(story.encode()) for story in stories)
    return {"bits_per_byte": round(nats.item() / math.log(2) / size, 4), "perplexity": round(math.exp(nats.item() / count), 3)}


def report(model, tokenizer, folder, exits, limit=None):
    """The scores on the text that no model is trained on."""
    heldout = text.stories(folder / "heldout.txt.xz")[:limit]
    real = text.stories(folder / "real_excerpts.txt.xz")[:limit]
    # The beginning is no token to guess, the end is one.
    fits = lambda story: len(tokenizer.encode(story).ids) <= model.shape.context
    texts = {"heldout": heldout, "real_excerpts": [story for story in real if fits(story)], "real_excerpts_and_long_ones": real}
    return {
        name: {"stories": len(stories), **score(model, tokenizer, stories), "exits": {exit: score(model, tokenizer, stories, exit) for exit in exits}}
        for name, stories in texts.items()
    }


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("stories", type=Path, help="folder of the stories")
    options.add_argument("model", type=Path, help="folder of the model")
    options.add_argument("--exits", type=int, nargs="*", default=[2, 3])
    options.add_argument("--stories-limit", type=int, help="so many stories of each text only")
    given = options.parse_args()
    model = Llama.open(given.model)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = Tokenizer.from_file(str(given.model / "tokenizer.json"))
    print(json.dumps(report(model.to(device), tokenizer, given.stories, given.exits, given.stories_limit), indent=2))


if __name__ == "__main__":
    main()
