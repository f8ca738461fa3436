"""Trains a small drafter and an EAGLE head for SmolLM2 on text that it wrote: `python guess.py FOLDER TEXT.npy... OUTPUT`.

FOLDER is what `convert.py folder` made, TEXT.npy what `write.py` wrote, in one run or in several with other seeds. OUTPUT gets `drafter/`, `eagle/`, `shortlist.json` (the tokens that the text is mostly
made of: the two guess among these alone) and `facts.json`. Both learn the model's own distributions, not its text.
"""

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "stories" / "training"))
from eagle import Eagle
from llama import Llama, Shape
from train import EAGLE_DEPTHS, rounded, save, train
from write import END, in_bfloat16

# How many tokens are guessed among.
SHORTLIST = 8192
# Texts that nothing is trained on.
HELD_OUT = 256
# They learn the model's distributions as most texts are drawn from them: what is unlikely then is not worth their few weights.
TEMPERATURE = 0.7


class Rows:
    """Texts with the model's state after each token, and which tokens count: those of a text, not what fills up a row."""

    def __init__(self, target, tokens, end, seed):
        device = target.model.embed_tokens.weight.device
        self.tokens = torch.from_numpy(tokens.astype(np.int32)).to(device)
        self.states = torch.empty(*tokens.shape, target.shape.width, dtype=torch.bfloat16, device=device)
        with torch.no_grad():
            for first in range(0, len(tokens), 64):
                self.states[first : first + 64] = target.states(self.tokens[first : first + 64].long())[0]
        after = self.tokens.roll(1, dims=1)
        self.counts = (self.tokens != end) | (after != end)
        # As `train` asks for it.
        self.starts = self.tokens
        self.random = torch.Generator(device=device).manual_seed(seed)

    def batch(self, rows, _):
        return torch.randint(len(self.tokens), (rows,), generator=self.random, device=self.tokens.device)


def divergence(guess, truth, counts):
    """Nats a token between logits, where tokens count."""
    guess, truth = (F.log_softmax(logits.float() / TEMPERATURE, dim=-1) for logits in (guess, truth))
    each = (truth.exp() * (truth - guess)).sum(-1)
    return (each * counts).sum() / counts.sum()


def overlap(guess, truth, counts):
    """The chance that a draw of the guess is one of the truth."""
    guess, truth = (F.softmax(logits.float() / TEMPERATURE, dim=-1) for logits in (guess, truth))
    least = torch.minimum(guess, truth).sum(-1)
    return ((least * counts).sum() / counts.sum()).item()


def frequent(tokens, vocabulary, end):
    counts = np.bincount(tokens.ravel(), minlength=vocabulary)
    # Every row is filled up with it.
    counts[end] = counts.max()
    kept = np.sort(np.argsort(-counts, kind="stable")[:SHORTLIST])
    return kept, round(float(counts[kept].sum() / counts.sum()), 4)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("model", type=Path)
    options.add_argument("text", type=Path, nargs="+")
    options.add_argument("output", type=Path)
    options.add_argument("--drafter", default="96x8", help="width and layers")
    options.add_argument("--drafter-steps", type=int, default=4000)
    options.add_argument("--eagle", default="2x1024", help="layers, and hidden numbers of each")
    options.add_argument("--eagle-steps", type=int, default=6500)
    options.add_argument("--rows", type=int, default=32)
    options.add_argument("--peak", type=float, default=1e-3)
    options.add_argument("--seed", type=int, default=20261119)
    options.add_argument("--device", default="cuda")
    options.add_argument("--eager", action="store_true", help="do not compile: for a trial on a CPU")
    given = options.parse_args()
    torch.manual_seed(given.seed)
    torch.set_float32_matmul_precision("high")
    compiled = (lambda f: f) if given.eager else (lambda f: torch.compile(f, dynamic=False))
    given.output.mkdir(parents=True, exist_ok=True)

    begun = time.time()
    end = Tokenizer.from_file(str(given.model / "tokenizer.json")).token_to_id(END)
    target = in_bfloat16(Llama.open(given.model).to(given.device))
    tokens = np.concatenate([np.load(text) for text in given.text])
    held_out = min(HELD_OUT, len(tokens) // 4)
    kept, share = frequent(tokens[held_out:], target.shape.vocabulary, end)
    (given.output / "shortlist.json").write_text(json.dumps(kept.tolist()) + "\n")
    kept = torch.from_numpy(kept).to(given.device)
    seen, unseen = (Rows(target, part, end, given.seed) for part in (tokens[held_out:], tokens[:held_out]))
    facts = {"texts": len(tokens), "tokens": int(seen.counts.sum()), "shortlist": share, "reading_seconds": round(time.time() - begun, 1)}
    print(facts, flush=True)
    head_of_target = target.model.embed_tokens.weight[kept]
    short = lambda states: F.linear(states, head_of_target.to(states.dtype))

    width, layers = map(int, given.drafter.split("x"))
    shape = replace(target.shape, width=width, layers=layers, heads=width // 32, kv_heads=width // 32, hidden=3 * width)
    drafter = Llama(shape).to(given.device)

    def drafted(model, rows, places):
        states, _ = model.states(rows.tokens[places].long())
        return F.linear(states, model.model.embed_tokens.weight[kept])

    @compiled
    def drafter_loss(places):
        loss = divergence(drafted(drafter, seen, places), short(seen.states[places]), seen.counts[places])
        return loss, loss

    layers, hidden = map(int, given.eagle.split("x"))
    head = Eagle(replace(target.shape, layers=layers, hidden=hidden)).to(given.device)

    def guesses(head, rows, places):
        """What the head guesses at each depth, what the target says there, and which of these count."""
        states, counts = rows.states[places], rows.counts[places]
        embeddings = target.model.embed_tokens(rows.tokens[places].long())
        for depth, given in enumerate(head.ahead(states, embeddings, EAGLE_DEPTHS)):
            yield short(given), short(states[:, depth + 1 :]), counts[:, depth + 1 :]

    @compiled
    def head_loss(places):
        loss = sum(divergence(*each) for each in guesses(head, seen, places)) / EAGLE_DEPTHS
        return loss, loss

    with open(given.output / "losses.jsonl", "w") as log:
        for name, module, loss_of, steps, rows, peak in (
            ("drafter", drafter, drafter_loss, given.drafter_steps, 2 * given.rows, 2 * given.peak),
            ("eagle", head, head_loss, given.eagle_steps, given.rows, given.peak),
        ):
            if steps == 0:
                continue
            # So that its batches are the same whatever was trained before it.
            seen.random.manual_seed(given.seed)
            since = time.time()
            train(name, module, lambda places, _, loss_of=loss_of: loss_of(places), seen, steps, rows, peak, log)
            rounded(module)
            save(given.output / name, module.config() if name == "eagle" else shape.config(), module.weights())
            facts[f"{name}_seconds"] = round(time.time() - since, 1)

    with torch.no_grad(), torch.autocast(torch.device(given.device).type, torch.bfloat16):
        parts = torch.arange(held_out, device=given.device).split(8)
        if given.drafter_steps:
            facts["drafter_overlap"] = round(sum(overlap(drafted(drafter, unseen, p), short(unseen.states[p]), unseen.counts[p]) for p in parts) / len(parts), 4)
        if given.eagle_steps:
            depths = [[overlap(*each) for each in guesses(head, unseen, p)] for p in parts]
            facts["eagle_overlap"] = [round(sum(depth) / len(depth), 4) for depth in zip(*depths)]
    facts["parameters"] = {name: sum(w.numel() for w in module.parameters()) for name, module in (("drafter", drafter), ("eagle", head))}
    (given.output / "facts.json").write_text(json.dumps(facts, indent=2) + "\n")
    print(facts, flush=True)


if __name__ == "__main__":
    main()
