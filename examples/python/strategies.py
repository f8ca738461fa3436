"""Strategies side by side: one prompt, one seed, a text each, and what can be measured of it.

    python examples/python/strategies.py --prompt "Tom saw a big" --seed 1 --output pictures

The model is the small one of stories that is part of the package. With --output, pictures of the next token and of a whole text go to that folder; they need
`pip install onedraw[plot]`.
"""

from __future__ import annotations

import argparse
import textwrap
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import onedraw
from onedraw import SamplingParams, presets

# Each is complete: of the model's own settings none acts beside them.
STRATEGIES = {
    "greedy": SamplingParams(temperature=0),
    **{name: presets.by_name(name) for name in presets.NAMES},
    "top-p 0.9": SamplingParams(top_p=0.9),
    "min-p 0.1": SamplingParams(min_p=0.1),
    "typical 0.5": SamplingParams(typical_p=0.5),
    "mirostat 3 bits": SamplingParams(mirostat=2, mirostat_tau=3.0),
}

BEAMS = 4


@dataclass
class Text:
    """What a strategy wrote, and what is measured of it."""

    strategy: str
    text: str
    tokens: list[int]
    entropy: float | None
    """Of the distributions that the tokens were drawn from, in bits; a search draws from none."""
    probability: float = 0.0
    rank: float = 0.0

    @property
    def distinct(self) -> float:
        """The share of pairs of neighbours that are not the same as an earlier pair."""
        pairs = grams(self.tokens, 2)
        return len(set(pairs)) / len(pairs) if pairs else 1.0

    @property
    def repeated(self) -> int:
        """Runs of four tokens that were there before: a text that loops has many."""
        return sum(count - 1 for count in Counter(grams(self.tokens, 4)).values())


def grams(tokens: list[int], length: int) -> list[tuple[int, ...]]:
    return [tuple(tokens[i : i + length]) for i in range(len(tokens) - length + 1)]


def rows_after(generator: onedraw.Generator, prompt: list[int], tokens: list[int]) -> NDArray[np.float32]:
    """The logits that each token was chosen from: one pass over the whole text gives them again."""
    return generator.logits(prompt + tokens)[len(prompt) - 1 : -1]


def entropy(distribution: onedraw.Distribution) -> float:
    p, logs = distribution.probabilities, distribution.logprobs
    # A token whose probability is too small for a number adds nothing.
    return float(-np.sum(p[p > 0] * logs[p > 0]) / np.log(2))


def drawn(generator: onedraw.Generator, name: str, params: SamplingParams, prompt: list[int]) -> Text:
    """A text by one of the strategies that draw."""
    generated = generator.generate(prompt, params)
    assert isinstance(generated, onedraw.Generated)  # With n above 1 there would be several.
    # From the same rows a sampler draws the same tokens again, and penalties and mirostat, which learn from them, stand where they stood.
    sampler = onedraw.Sampler(params, prompt_token_ids=prompt)
    entropies = []
    for row, token in zip(rows_after(generator, prompt, generated.tokens), generated.tokens, strict=True):
        entropies.append(entropy(sampler.distribution(row)))
        assert sampler.sample(row).token == token
    return Text(name, generated.text, generated.tokens, float(np.mean(entropies)))


def searched(generator: onedraw.Generator, prompt: list[int], max_tokens: int) -> Text:
    """The text that a beam search finds the most likely."""
    best = generator.beams(prompt, SamplingParams(max_tokens=max_tokens), width=BEAMS)[0]
    return Text(f"{BEAMS} beams", best.text or "", best.tokens, None)


def measure(generator: onedraw.Generator, prompt: list[int], text: Text) -> None:
    """What the model itself thinks of the tokens, before any strategy: so that strategies can be compared."""
    logits = rows_after(generator, prompt, text.tokens).astype(np.float64)
    chosen = logits[np.arange(len(text.tokens)), text.tokens]
    best = logits.max(axis=1)
    shares = np.exp(chosen - best) / np.exp(logits - best[:, None]).sum(axis=1)
    text.probability = float(shares.mean())
    text.rank = float((logits > chosen[:, None]).sum(axis=1).mean()) + 1.0


def table(texts: list[Text]) -> str:
    lines = [f"{'strategy':<16} {'tokens':>6} {'probability':>11} {'rank':>6} {'entropy':>8} {'distinct-2':>10} {'repeated 4':>10}"]
    for text in texts:
        bits = "-" if text.entropy is None else f"{text.entropy:.2f}"
        lines.append(f"{text.strategy:<16} {len(text.tokens):>6} {text.probability:>11.3f} {text.rank:>6.1f} {bits:>8} {text.distinct:>10.2f} {text.repeated:>10}")
    return "\n".join(lines)


def paint(generator: onedraw.Generator, prompt: list[int], seed: int, max_tokens: int, folder: Path) -> None:
    # Not above: without --output nobody needs matplotlib.
    from onedraw import plot

    folder.mkdir(parents=True, exist_ok=True)
    row = generator.logits(prompt)[-1]
    generated = generator.generate(prompt, "creative", seed=seed, max_tokens=max_tokens, logprobs=5)
    figures = {
        "temperature.png": plot.temperature(row, (0.5, 1.0, 1.5), tokenizer=generator, seed=seed),
        "pipeline.png": plot.pipeline(row, "creative", tokenizer=generator, seed=seed, prompt_token_ids=prompt),
        "generation.png": plot.generation(generated, generator),
    }
    for name, figure in figures.items():
        figure.savefig(folder / name, dpi=150)
        print(f"wrote {folder / name}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Strategies side by side on the model of stories.")
    parser.add_argument("--prompt", default="Once upon a time, there was a little dragon", help="what the texts begin with")
    parser.add_argument("--seed", type=int, default=1, help="one for all: the same seed draws the same texts, on every machine")
    parser.add_argument("--max-tokens", type=int, default=60, help="the longest text")
    parser.add_argument("--output", type=Path, metavar="DIR", help="a folder for pictures; none without it")
    arguments = parser.parse_args()

    generator = onedraw.Generator()
    prompt = generator.tokenizer.encode(arguments.prompt)
    common = {"seed": arguments.seed, "max_tokens": arguments.max_tokens}
    ends = generator.eos_token_ids
    texts = [drawn(generator, name, params.replace(**common, eos_token_id=ends), prompt) for name, params in STRATEGIES.items()]
    texts.append(searched(generator, prompt, arguments.max_tokens))
    for text in texts:
        measure(generator, prompt, text)
        print(f"{text.strategy}:")
        print(textwrap.fill(arguments.prompt + text.text, width=100, initial_indent="  ", subsequent_indent="  "), end="\n\n")
    print(table(texts))
    print("\nprobability and rank are the model's own, entropy (bits) is that of the distributions drawn from; means over the tokens.")
    if arguments.output is not None:
        paint(generator, prompt, arguments.seed, arguments.max_tokens, arguments.output)


if __name__ == "__main__":
    main()
