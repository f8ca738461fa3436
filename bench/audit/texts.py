"""Texts that an honest provider or another one wrote, and our audits of them.

A provider computes logits, draws a token from them with onedraw, and goes on with it. The auditor computes the logits
of the whole text with onedraw's own model in f32, and audits every token with the parameters and the seed that the
provider claims.
"""

from __future__ import annotations

import collections
import hashlib
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM, DynamicCache
from transformers.cache_utils import DynamicLayer

import onedraw
from onedraw import audit

ROOT = Path(__file__).parents[2]
STORIES, DRAFTER = ROOT / "models/stories", ROOT / "models/stories-drafters/drafter"
LENGTH = 300

CLAIMED = {"temperature": 1.0, "top_p": 0.95, "top_k": 50}
COOL = {"temperature": 0.7, "top_p": 0.9, "top_k": 50}
COLD = {"temperature": 0.3, "top_p": 0.9, "top_k": 50}
GREEDY = {"temperature": 0.0}

# Added to the seed for the text of "another seed", and for a token that is planted.
OTHER_SEED = 1 << 32


@dataclass(frozen=True)
class Condition:
    """How texts are written, and what is claimed of them."""

    name: str
    number: str = "bfloat16"  # the numbers that transformers computes with, or "ours"
    claimed: dict = field(default_factory=lambda: CLAIMED)
    drawn: dict = field(default_factory=dict)  # what differs from the claimed parameters
    other_seed: bool = False
    bits: int | None = None  # the weights of the layers are rounded to so many
    layers: int | None = None  # only so many of the first layers
    folder: Path | None = None  # another model
    is_planted: bool = False  # one token of each text is replaced

    @property
    def key(self) -> str:
        return "".join(letter if letter.isalnum() or letter == "." else "-" for letter in self.name)


def conditions(model: str) -> list[Condition]:
    """What is measured of a model, honest providers first."""
    is_stories = model == "stories"
    honest = [
        Condition("honest: ours, f32", number="ours"),
        Condition("honest: transformers, f32", number="float32"),
        Condition("honest: transformers, bf16"),
        Condition("honest at T = 0.7, top-p 0.9: bf16", claimed=COOL),
        Condition("honest at T = 0.3, top-p 0.9: bf16", claimed=COLD),
        Condition("honest, greedy: bf16", claimed=GREEDY),
    ]
    others = [
        Condition("temperature 0.9", drawn={"temperature": 0.9}),
        Condition("temperature 1.1", drawn={"temperature": 1.1}),
        Condition("top-p 0.90", drawn={"top_p": 0.9}),
        Condition("top-p 1.0", drawn={"top_p": 1.0}),
        Condition("top-k ignored", drawn={"top_k": 0}),
        Condition("another seed", other_seed=True),
        Condition("weights of 8 bits", bits=8),
        Condition("weights of 6 bits", bits=6),
        Condition("weights of 4 bits", bits=4),
        Condition("early exit: 3 of 6 layers", layers=3) if is_stories else Condition("28 of 30 layers", layers=28),
        *(
            [Condition("early exit: 2 of 6 layers", layers=2), Condition("the drafter", folder=DRAFTER)]
            if is_stories
            else []
        ),
        Condition("one token planted", is_planted=True),
        Condition("at T = 0.7, top-p 0.9: temperature 0.8", claimed=COOL, drawn={"temperature": 0.8}),
        Condition("at T = 0.7, top-p 0.9: temperature 0.6", claimed=COOL, drawn={"temperature": 0.6}),
        Condition("at T = 0.7, top-p 0.9: weights of 4 bits", claimed=COOL, bits=4),
    ]
    return honest + others


def held_out(model: str) -> list[Condition]:
    """Conditions with other seeds, on whose texts nothing was chosen."""
    found = [Condition("held-out honest bf16")]
    if model == "stories":
        found += [
            Condition("held-out cool honest bf16", claimed=COOL),
            Condition("held-out temperature 0.9", drawn={"temperature": 0.9}),
            Condition("held-out temperature 1.1", drawn={"temperature": 1.1}),
            Condition("held-out weights of 6 bits", bits=6),
        ]
    return found


NAMES = "Lily Tim Tom Mia Ben Sam Anna Max Lucy Jack Amy Bob Sue Spot Mom Dad".split()
SCENES = [
    "One day, {} went to the",
    "{} was playing in the garden when",
    '"Look at that!" said {}.',
    "Once upon a time, {} found a",
    "It was a rainy day and {} was",
]
TOPICS = (
    "bread rain music trees cats dogs ships birds maps clocks books rivers trains stars snow salt iron gold glass "
    "paper wine tea coffee sugar rice fish bees wolves horses cows sheep chess football tennis painting dance "
    "poetry law trade money banks schools teachers doctors farming cities bridges roads castles kings wars peace "
    "sleep dreams memory color light sound heat wind fire water oil coal sand"
).split()
QUESTION = "<|im_start|>user\nTell me a long story about {}.<|im_end|>\n<|im_start|>assistant\n"


def prompts(model: str, generator: onedraw.Generator, count: int) -> np.ndarray:
    """So many prompts of the same length, as tokens."""
    texts = (
        [scene.format(name) for name in NAMES for scene in SCENES]
        if model == "stories"
        else [QUESTION.format(topic) for topic in TOPICS]
    )
    encoded = [generator.tokenizer.encode(text) for text in texts]
    if model == "stories":
        encoded = [[0, *tokens] for tokens in encoded]
    common = collections.Counter(map(len, encoded)).most_common(1)[0][0]
    same = [tokens for tokens in encoded if len(tokens) == common]
    return np.array([same[i % len(same)] for i in range(count)])


def rounded(model: torch.nn.Module, bits: int) -> None:
    """Rounds the weights of the layers' linear maps symmetrically, with one scale for each output row. Embedding and
    head stay as they are."""
    most = 2 ** (bits - 1) - 1
    for module in model.model.layers.modules():
        if isinstance(module, torch.nn.Linear):
            weights = module.weight.data.float()
            scale = weights.abs().amax(dim=1, keepdim=True) / most
            module.weight.data = (torch.round(weights / scale) * scale).to(module.weight.dtype)


def opened(folder: Path, condition: Condition) -> torch.nn.Module:
    """The provider's model."""
    model = AutoModelForCausalLM.from_pretrained(
        condition.folder or folder, dtype=getattr(torch, condition.number)
    ).eval()
    if condition.bits:
        rounded(model, condition.bits)
    if condition.layers:
        model.model.layers = model.model.layers[: condition.layers]
        model.config.num_hidden_layers = condition.layers
    return model


def planted(rows: np.ndarray, params: list[dict], drawn: np.ndarray, position: int, which: np.ndarray) -> np.ndarray:
    """Other tokens for some rows: kept ones, drawn with another seed, or the second most likely if only one is kept."""
    tokens = drawn.copy()
    for i in which:
        for attempt in range(1, 21):
            sampler = onedraw.Sampler({**params[i], "seed": params[i]["seed"] + attempt * OTHER_SEED})
            tokens[i] = sampler.peek(rows[i], position).token
            if tokens[i] != drawn[i]:
                break
        else:
            tokens[i] = next(token for token in np.argsort(-rows[i])[:2] if token != drawn[i])
    return tokens


class Room(DynamicLayer):
    """Keys and values of a layer in memory that is allocated once. transformers' own cache copies them at each step."""

    def update(self, keys, values, *_, **__):
        if not self.is_initialized:
            self.lazy_initialization(keys, values)
            self.used, self.room = (
                0,
                [new.new_empty(*new.shape[:2], new.shape[2] + LENGTH, new.shape[3]) for new in (keys, values)],
            )
        begin, self.used = self.used, self.used + keys.shape[2]
        for room, new in zip(self.room, (keys, values), strict=True):
            room[:, :, begin : self.used] = new
        self.keys, self.values = (room[:, :, : self.used] for room in self.room)
        return self.keys, self.values


@torch.inference_mode()
def written(
    folder: Path, condition: Condition, beginnings: np.ndarray, seeds: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The texts of a provider, [texts, LENGTH], and the places of planted tokens."""
    count = len(beginnings)
    params = [
        {**condition.claimed, **condition.drawn, "seed": int(seed) + condition.other_seed * OTHER_SEED}
        for seed in seeds
    ]
    places = (
        np.random.default_rng(int(seeds[0])).integers(0, LENGTH, count) if condition.is_planted else np.full(count, -1)
    )
    if condition.number == "ours":
        generator = onedraw.Generator(None if folder == STORIES else str(folder), threads=1)
        settings = [onedraw.SamplingParams(**each, ignore_eos=True, max_tokens=LENGTH) for each in params]
        return np.array(
            [each.tokens for each in generator.generate([list(map(int, row)) for row in beginnings], settings)]
        ), places
    model = opened(folder, condition)
    batch, cache, fed = onedraw.Batch(), DynamicCache(config=model.config), torch.from_numpy(beginnings)
    cache.layers = [Room() for _ in cache.layers]
    ids = [batch.add(each) for each in params]
    texts = np.zeros((count, LENGTH), np.int64)
    for position in range(LENGTH):
        rows = model(fed, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1].float().numpy()
        tokens = np.array(batch.sample(ids, rows).tokens)
        which = np.flatnonzero(places == position)
        if which.size:
            tokens = planted(rows, params, tokens, position, which)
        texts[:, position] = tokens
        fed = torch.from_numpy(tokens[:, None])
    return texts, places


# Of each row of logits so many of the largest are stored, to audit a text again with other parameters.
LISTED = 64


def audited(
    generator: onedraw.Generator, beginning: np.ndarray, text: np.ndarray, params: dict
) -> dict[str, np.ndarray]:
    """The audit of a text, and the largest logits of each row."""
    whole = [*map(int, beginning), *map(int, text)]
    rows = np.asarray(generator.logits(whole[:-1]))[len(beginning) - 1 :]
    audits = audit(rows, text.tolist(), params)
    largest = np.argpartition(-rows, LISTED, axis=1)[:, :LISTED].astype(np.int32)
    return {
        "drawn": audits.drawn,
        "ids": largest,
        "logits": np.take_along_axis(rows, largest, 1),
        "claimed_logits": rows[np.arange(len(text)), text],
    }


def measured(model: str, folder: Path, condition: Condition, count: int, cache: Path) -> dict[str, np.ndarray]:
    """Texts of a condition with their audits; from the cache if they are there."""
    path = cache / f"{model}-{count}-{condition.key}.npz"
    if not path.exists():
        begun = time.monotonic()
        generator = onedraw.Generator(None if model == "stories" else str(folder), threads=1)
        beginnings = prompts(model, generator, count)
        first = int.from_bytes(hashlib.sha256(f"{model} {condition.name}".encode()).digest()[:3], "little") << 8
        seeds = np.arange(first, first + count)
        texts, places = written(folder, condition, beginnings, seeds)
        between = time.monotonic()
        each = [
            audited(generator, *both, {**condition.claimed, "seed": int(seed)})
            for *both, seed in zip(beginnings, texts, seeds, strict=True)
        ]
        arrays = {name: np.stack([one[name] for one in each]) for name in each[0]}
        cache.mkdir(parents=True, exist_ok=True)
        np.savez(path, texts=texts, seeds=seeds, places=places, beginnings=beginnings, **arrays)
        equal = np.mean(arrays["drawn"] == texts)
        print(
            f"{model}: {condition.name}: {equal:.4%} equal; written in {between - begun:.0f} s, audited in {time.monotonic() - between:.0f} s",
            flush=True,
        )
    return dict(np.load(path))
