"""Trains the story model, its drafter and its EAGLE head, and writes them as folders.

The early layers are trained to exit (Elhoushi and others, LayerSkip, 2024): besides the last layer's loss, in turn, that of layer 2 and of layer 3 under
the same norm and head. A second, shorter round has some stories told twice, so that the model can tell one again, and brings the early layers closer to the
last one: their loss is the divergence from its distributions.
"""

import argparse
import json
import math
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save as serialize
from tokenizers import Tokenizer

import text
from eagle import Eagle
from evaluate import report
from llama import Llama, Shape

TARGETS = {
    "6m": Shape(width=256, layers=6, heads=8, kv_heads=8, hidden=688),
    "25m": Shape(width=512, layers=7, heads=8, kv_heads=8, hidden=1376),
}
EXITS = (2, 3)
EXIT_SHARE = 0.3
TUNED_EXIT_SHARE = 1.0
# What stands between a story and the same story, and how many windows begin with such a pair in the second round.
AGAIN = "\n\nAgain:\n"
AGAIN_SHARE = 0.15
EAGLE_DEPTHS = 3
# How many tokens drafters guess among.
SHORTLIST = 2048


def drafter_shape(words):
    """`64x4`: the width and the layers."""
    width, layers = map(int, words.split("x"))
    return Shape(width=width, layers=layers, heads=width // 32, kv_heads=width // 32, hidden=3 * width)


class Windows:
    """Batches of windows that begin where a story begins, from a generator of their own."""

    def __init__(self, tokens, starts, again, length, seed, device):
        # The joint of a story and its repetition lies behind all stories.
        self.tokens = torch.from_numpy(np.concatenate([tokens, again]).astype(np.int16)).to(device)
        self.joint, self.joint_length = len(tokens), len(again)
        lengths = np.diff(np.append(starts, len(tokens)))
        usable = starts + length + 1 <= len(tokens)
        fits = usable & (2 * lengths + len(again) <= length)
        on_device = lambda array: torch.from_numpy(array).to(device)
        self.starts, self.lengths = on_device(starts[usable]), on_device(lengths[usable])
        self.repeatable = on_device(np.flatnonzero(fits[usable]))
        self.steps = torch.arange(length + 1, device=device)
        self.random = torch.Generator(device=device).manual_seed(seed)

    def choose(self, count, rows):
        return torch.randint(count, (rows,), generator=self.random, device=self.starts.device)

    def batch(self, rows, again_share=0.0):
        """Some of the windows tell their first story twice, and go on with the next."""
        twice = round(again_share * rows)
        once = self.starts[self.choose(len(self.starts), rows - twice), None] + self.steps
        if twice == 0:
            return self.tokens[once].long()
        chosen = self.repeatable[self.choose(len(self.repeatable), twice)]
        start, length = self.starts[chosen, None], self.lengths[chosen, None]
        # The repetition has no token that begins a story.
        second = self.steps - length - self.joint_length
        places = torch.where(self.steps < length, start + self.steps, self.joint + self.steps - length)
        places = torch.where(second >= 0, start + 1 + second, places)
        return self.tokens[torch.cat([once, places])].long()


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


def tuning_loss(model, window, leaves_at):
    states, early = model.states(window[:, :-1], (leaves_at,))
    logits = model.logits(states).float()
    last = F.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())
    guess = F.log_softmax(model.logits(early[0]).float(), dim=-1)
    truth = F.log_softmax(logits.detach(), dim=-1)
    divergence = F.kl_div(guess, truth, log_target=True, reduction="sum") / guess[..., 0].numel()
    return last + TUNED_EXIT_SHARE * divergence, last


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


def train(name, module, loss_of, windows, steps, rows, peak, log, again_share=0.0):
    """Runs all steps. `loss_of` gives the loss to follow and the one to report, in nats a token."""
    schedule = Schedule(module, peak, steps)
    begun, window_loss = time.time(), []
    for number in range(steps):
        with torch.autocast(windows.starts.device.type, torch.bfloat16):
            loss, reported = loss_of(windows.batch(rows, again_share), number)
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
    data = serialize(weights, metadata={"format": "pt"})
    # The header may end in spaces: with as many as make it whole lines of a cache, no read of the weights crosses two lines.
    length = int.from_bytes(data[:8], "little")
    spaces = -(8 + length) % 64
    header = (length + spaces).to_bytes(8, "little") + data[8 : 8 + length] + b" " * spaces
    (folder / "model.safetensors").write_bytes(header + data[8 + length :])
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def save_shortlist(folder, tokens):
    """The tokens that stories are mostly made of, in ascending order: where drafters need not tell the others apart, their heads are smaller."""
    frequent = np.argsort(-np.bincount(tokens, minlength=text.VOCABULARY), kind="stable")[:SHORTLIST]
    (folder / "shortlist.json").write_text(json.dumps(sorted(frequent.tolist())) + "\n")


def save_tokenizer(folder, tokenizer, context):
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    facts = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": text.END,
        "eos_token": text.END,
        "model_max_length": context,
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
    options.add_argument("--size", choices=TARGETS, default="6m", help="of a new target, in parameters")
    options.add_argument("--resume", type=Path, help="folder of a target that has been through the first round: --size and --steps are not asked")
    options.add_argument("--steps", type=int, default=28_000, help="steps of the target's first round")
    options.add_argument("--tuning-steps", type=int, default=8000, help="steps of its second round")
    options.add_argument("--drafter", type=drafter_shape, default="96x2", help="width and layers of the drafter")
    options.add_argument("--drafter-steps", type=int, default=5000)
    options.add_argument("--eagle-hidden", type=int, default=688, help="hidden numbers of its layer")
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
    if given.resume:
        tokenizer = Tokenizer.from_file(str(given.resume / "tokenizer.json"))
        target = Llama.open(given.resume).requires_grad_(True)
    else:
        tokenizer = text.train_tokenizer(stories[::4])
        target = Llama(TARGETS[given.size])
    shape = target.shape
    target = target.train().to(given.device)
    tokens, starts = text.encode(tokenizer, stories)
    again = np.array(tokenizer.encode(AGAIN).ids[1:], dtype=np.uint16)
    save_tokenizer(given.output, tokenizer, shape.context)
    save_shortlist(given.output, tokens)
    windows = Windows(tokens, starts, again, shape.context, given.seed, given.device)
    facts = {"stories": len(stories), "tokens": len(tokens), "sha256": digest, "reading_seconds": round(time.time() - begun, 1)}
    print(facts, flush=True)

    def round_of(name, steps, *arguments):
        if steps == 0:
            return
        since = time.time()
        train(name, *arguments)
        facts[f"{name}_seconds"] = round(time.time() - since, 1)

    if not given.resume:
        loss = compiled(target_loss)
        round_of("target", given.steps, target, lambda window, number: loss(target, window, EXITS[number % len(EXITS)]),
                 windows, given.steps, given.rows, given.peak, log)
    # The second round goes on from the weights as they are kept, whoever made them.
    rounded(target).train().requires_grad_(True)
    tuned_loss = compiled(tuning_loss)
    round_of("tuning", given.tuning_steps, target, lambda window, number: tuned_loss(target, window, EXITS[number % len(EXITS)]),
             windows, given.tuning_steps, given.rows, given.peak / 2, log, AGAIN_SHARE)
    rounded(target)
    save(given.output, shape.config(), target.weights())
    facts["target"] = report(target, tokenizer, given.stories, EXITS, given.stories_limit)
    print(facts, flush=True)

    drafter = Llama(given.drafter).to(given.device)
    loss_of_drafter = compiled(drafter_loss)
    round_of("drafter", given.drafter_steps, drafter, lambda window, _: loss_of_drafter(drafter, target, window),
             windows, given.drafter_steps, given.rows, 2 * given.peak, log)
    rounded(drafter)
    save(given.output / "drafter", given.drafter.config(), drafter.weights())
    facts["drafter"] = report(drafter, tokenizer, given.stories, (), given.stories_limit)

    head = Eagle(replace(shape, layers=1, hidden=given.eagle_hidden)).to(given.device)
    loss_of_head = compiled(eagle_loss)
    round_of("eagle", given.eagle_steps, head, lambda window, _: loss_of_head(head, target, window),
             windows, given.eagle_steps, given.rows // 2, given.peak, log)
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
