"""Trains the story model, its drafter and its EAGLE head, and writes them as folders.

The early layers are trained to exit (Elhoushi and others, LayerSkip, 2024): besides the last layer's loss, in turn, that of layer 2 and of layer 3 under
the same norm and head.
"""

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

import text
from eagle import Eagle
from evaluate import report
from llama import Llama, Shape

TARGET = Shape(width=256, layers=6, heads=8, kv_heads=8, hidden=688)
DRAFTER = Shape(width=64, layers=4, heads=4, kv_heads=4, hidden=176)
EXITS = (2, 3)
EXIT_SHARE = 0.3
EAGLE_DEPTHS = 3


class Windows:
    """Batches of windows that begin where a story begins, from a generator of their own."""

    def __init__(self, tokens, starts, length, seed, device):
        self.tokens = torch.from_numpy(tokens.astype(np.int16)).to(device)
        usable = starts[starts + length + 1 <= len(tokens)]
        self.starts = torch.from_numpy(usable).to(device)
        self.steps = torch.arange(length + 1, device=device)
        self.random = torch.Generator(device=device).manual_seed(seed)

    def batch(self, rows):
        chosen = torch.randint(len(self.starts), (rows,), generator=self.random, device=self.starts.device)
        return self.tokens[self.starts[chosen, None] + self.steps].long()


class Schedule:
    """AdamW that warms up and then falls along a cosine. Matrices decay, embeddings and norms do not."""

    def __init__(self, module, peak, steps, warmup=200):
        decays = lambda name, weight: weight.dim() == 2 and "embed" not in name
        matrices = [w for n, w in module.named_parameters() if decays(n, w)]
        others = [w for n, w in module.named_parameters() if not decays(n, w)]
        groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=peak, betas=(0.9, 0.95), fused=torch.cuda.is_available())
        self.module, self.peak, self.steps, self.warmup = module, peak, steps, warmup

    def step(self, number):
        rise = min(1.0, (number + 1) / self.warmup)
        fall = 0.5 * (1 + math.cos(math.pi * number / self.steps))
        torch.nn.utils.clip_grad_norm_(self.module.parameters(), 1.0)
        for group in self.optimizer.param_groups:
            group["lr"] = self.peak * rise * fall
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def cross_entropy(model, states, wanted):
    return F.cross_entropy(model.logits(states).flatten(0, 1).float(), wanted.flatten())


def target_loss(model, window, leaves_at):
    states, early = model.states(window[:, :-1], (leaves_at,))
    last = cross_entropy(model, states, window[:, 1:])
    return last + EXIT_SHARE * cross_entropy(model, early[0], window[:, 1:]), last


def drafter_loss(model, target, window):
    """The divergence from the target's distributions: what a draft is judged by."""
    with torch.no_grad():
        truth = F.log_softmax(target.logits(target.states(window[:, :-1])[0]).float(), dim=-1)
    states, _ = model.states(window[:, :-1])
    guess = F.log_softmax(model.logits(states).float(), dim=-1)
    loss = F.kl_div(guess, truth, log_target=True, reduction="sum") / guess[..., 0].numel()
    return loss, loss


def eagle_loss(head, target, window):
    with torch.no_grad():
        features, _ = target.states(window[:, :-1])
    loss = head.loss(target, window[:, :-1], features, EAGLE_DEPTHS)
    return loss, loss


def train(name, module, loss_of, windows, steps, rows, peak, log):
    """Runs all steps. `loss_of` gives the loss to follow and the one to report, in nats a token."""
    schedule = Schedule(module, peak, steps)
    begun, window_loss = time.time(), []
    for number in range(steps):
        with torch.autocast(windows.starts.device.type, torch.bfloat16):
            loss, reported = loss_of(windows.batch(rows), number)
        loss.backward()
        schedule.step(number)
        window_loss.append(reported.detach())
        if (number + 1) % max(1, steps // 60) == 0 or number + 1 == steps:
            mean = torch.stack(window_loss).float().mean().item()
            window_loss.clear()
            line = {"model": name, "step": number + 1, "loss": round(mean, 4), "seconds": round(time.time() - begun, 1)}
            print(json.dumps(line), file=log, flush=True)
            print(line, flush=True)


def rounded(module):
    """The model as it will be kept: weights rounded to bf16, computed with in f32."""
    for weight in module.parameters():
        weight.data = weight.data.to(torch.bfloat16).float()
    return module.eval().requires_grad_(False)


def save(folder, config, weights):
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def save_tokenizer(folder, tokenizer):
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    facts = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": text.END,
        "eos_token": text.END,
        "model_max_length": TARGET.context,
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(facts, indent=2) + "\n")
    # How the stories read best: onedraw's preset `balanced`.
    generation = {"bos_token_id": 0, "eos_token_id": 0, "do_sample": True, "temperature": 0.7, "top_k": 50, "top_p": 0.9}
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("stories", type=Path, help="folder of the stories")
    options.add_argument("output", type=Path, help="folder to write the models to")
    options.add_argument("--seed", type=int, default=20261115)
    options.add_argument("--steps", type=int, default=28_000, help="steps of the target")
    options.add_argument("--drafter-steps", type=int, default=6000)
    options.add_argument("--eagle-steps", type=int, default=5000)
    options.add_argument("--rows", type=int, default=192)
    options.add_argument("--peak", type=float, default=2e-3)
    options.add_argument("--device", default="cuda")
    options.add_argument("--eager", action="store_true", help="do not compile: for a trial on a CPU")
    options.add_argument("--stories-limit", type=int, help="use so many stories only: for a trial")
    given = options.parse_args()

    torch.manual_seed(given.seed)
    torch.set_float32_matmul_precision("high")
    # Not dynamic: the layer to exit at is a number of the program, not of its data.
    compiled = (lambda f: f) if given.eager else (lambda f: torch.compile(f, dynamic=False))
    given.output.mkdir(parents=True, exist_ok=True)
    log = open(given.output / "losses.jsonl", "w")

    begun = time.time()
    stories, digest = text.training_stories(given.stories)
    stories = stories[: given.stories_limit]
    tokenizer = text.train_tokenizer(stories[::4])
    tokens, starts = text.encode(tokenizer, stories)
    save_tokenizer(given.output, tokenizer)
    windows = Windows(tokens, starts, TARGET.context, given.seed, given.device)
    facts = {"stories": len(stories), "tokens": len(tokens), "sha256": digest, "reading_seconds": round(time.time() - begun, 1)}
    print(facts, flush=True)

    def timed(name, run):
        since = time.time()
        run()
        facts[f"{name}_seconds"] = round(time.time() - since, 1)
        (given.output / "facts.json").write_text(json.dumps(facts, indent=2) + "\n")

    target = Llama(TARGET).to(given.device)
    loss = compiled(target_loss)
    timed("target", lambda: train(
        "target", target, lambda window, number: loss(target, window, EXITS[number % len(EXITS)]),
        windows, given.steps, given.rows, given.peak, log))
    rounded(target)
    save(given.output, TARGET.config(), target.weights())
    facts["target"] = report(target, tokenizer, given.stories, EXITS, given.stories_limit)
    print(facts, flush=True)

    drafter = Llama(DRAFTER).to(given.device)
    loss_of_drafter = compiled(drafter_loss)
    timed("drafter", lambda: train(
        "drafter", drafter, lambda window, _: loss_of_drafter(drafter, target, window),
        windows, given.drafter_steps, given.rows, 2 * given.peak, log))
    rounded(drafter)
    save(given.output / "drafter", DRAFTER.config(), drafter.weights())
    facts["drafter"] = report(drafter, tokenizer, given.stories, (), given.stories_limit)

    head = Eagle(TARGET).to(given.device)
    loss_of_head = compiled(eagle_loss)
    timed("eagle", lambda: train(
        "eagle", head, lambda window, _: loss_of_head(head, target, window),
        windows, given.eagle_steps, given.rows // 2, given.peak, log))
    rounded(head)
    save(given.output / "eagle", head.config(), head.weights())
    facts["parameters"] = {
        name: sum(w.numel() for w in module.parameters())
        for name, module in (("target", target), ("drafter", drafter), ("eagle", head))
    }
    (given.output / "facts.json").write_text(json.dumps(facts, indent=2) + "\n")
    print(facts, flush=True)


if __name__ == "__main__":
    main()
