"""Trains the small model of stories by its own texts, with and without the kept sets of their tokens.

    python examples/python/kept_training.py [--steps N] [--output FILE.svg]

A step draws texts with top-p 0.9 from the model as it is, rewards full stops, and moves the model towards the better texts of each prompt, and away from
the worse ones, by GSPO (Zheng and others 2025): an importance ratio for each text, clipped to a narrow range around 1. The model that draws and the one that
is trained are the same at the beginning of a step, so all ratios should be 1. They are if the trainer normalises over the kept tokens, as the sampler did.
If it normalises over the whole vocabulary, every ratio is too small by the mass that top-p cut: the worse texts are clipped before they teach anything, and
the better ones when it is far too late.

Needs `pip install onedraw[transformers]`, and matplotlib for --output. One seed gives the same numbers again on the same machine.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from onedraw.kept import KeptSets
from onedraw.torch import IGNORED, kept_logprobs
from onedraw.transformers import Generated, generate
from transformers import AutoModelForCausalLM, AutoTokenizer

STORIES = Path(__file__).parents[2] / "models" / "stories"
PROMPTS = ["Once upon a time", "Tom saw a big", "One day, a girl", "The little cat"]
TEXTS, LENGTH, UPDATES = 8, 24, 2
"""Texts for each prompt, tokens in each, and how often the model is updated by them."""
TEMPERATURE, TOP_P = 1.0, 0.9
LEARNING_RATE = 2e-4
CLIP = (3e-4, 4e-4)
"""How far a text's ratio may be below and above 1; the values of GSPO's authors. A worse text below, or a better one above, has no gradient any more."""


@dataclass
class Texts:
    """What was drawn in one step: texts in rows, a column for each token after the first."""

    tokens: torch.Tensor
    """[texts, length + 1], with the prompt; filled up with 0 at the end."""
    targets: torch.Tensor
    """[texts, length]: the token that a position was followed by, or IGNORED in the prompt and after the end."""
    logprobs: torch.Tensor
    """[texts, length]: the sampler's logprobs of the targets, among the tokens that top-p kept."""
    kept: KeptSets
    """The kept sets of all targets that are not ignored, row by row."""
    advantages: torch.Tensor
    """[texts]: how much better a text is than the others after its prompt, in standard deviations."""
    reward: float
    """The mean over all texts."""


@dataclass
class Run:
    """What is remembered of a training."""

    ratios: torch.Tensor = field(default_factory=lambda: torch.empty(0))
    """Of trainer to sampler at the first update, for each token."""
    text_ratios: torch.Tensor = field(default_factory=lambda: torch.empty(0))
    """The same for each text: the geometric mean over its tokens."""
    clipped: list[float] = field(default_factory=list)
    """The share of texts that have no gradient at the first update of a step."""
    rewards: list[float] = field(default_factory=list)


def draw(model: torch.nn.Module, tokenizer, step: int) -> Texts:
    """Texts of the model as it is, with their rewards."""
    tokens, drawn, rewards = [], [], []
    for number, prompt in enumerate(PROMPTS):
        texts = generate(
            model, tokenizer, prompt, n=TEXTS, max_tokens=LENGTH, temperature=TEMPERATURE, top_p=TOP_P, seed=1000 * step + 100 * number,
            kept="ids", logprobs=0, logprobs_mode="processed_logprobs",
        )  # fmt: skip
        tokens += [tokenizer.encode(prompt) + list(text.tokens) for text in texts]
        drawn += texts
        rewards.append(torch.tensor([reward(text) for text in texts]))
    longest = max(map(len, tokens))
    ids = torch.tensor([one + [0] * (longest - len(one)) for one in tokens])
    targets = torch.full((len(ids), longest - 1), IGNORED)
    logprobs = torch.zeros(targets.shape)
    for row, (one, text) in enumerate(zip(tokens, drawn, strict=True)):
        place = slice(len(one) - len(text.tokens) - 1, len(one) - 1)
        targets[row, place] = torch.tensor(text.tokens)
        logprobs[row, place] = torch.tensor([sampled.logprob for sampled in text.sampled])
    kept = KeptSets.of(sampled for text in drawn for sampled in text.sampled)
    advantages = torch.cat([(group - group.mean()) / (group.std() + 1e-3) for group in rewards])
    return Texts(ids, targets, logprobs, kept, advantages, torch.cat(rewards).mean().item())


def reward(text: Generated) -> float:
    """Full stops: the model shall learn to write short sentences."""
    return float(text.text.count("."))


def over_kept(logits: torch.Tensor, texts: Texts) -> torch.Tensor:
    """Logprobs of the targets among the tokens that were kept when they were drawn."""
    # A row for each position. Those of the prompt have no set: they begin where they end.
    counts = torch.zeros(texts.targets.shape, dtype=torch.long)
    counts[texts.targets != IGNORED] = torch.from_numpy(texts.kept.counts).long()
    offsets = torch.nn.functional.pad(counts.flatten().cumsum(0), (1, 0))
    return kept_logprobs(logits.flatten(0, 1), texts.targets.flatten(), (texts.kept.token_ids, offsets), TEMPERATURE).view(texts.targets.shape)


def over_vocabulary(logits: torch.Tensor, texts: Texts) -> torch.Tensor:
    """Logprobs of the targets among all tokens, as trainers compute them."""
    targets = texts.targets.clamp(min=0)
    return (logits / TEMPERATURE).log_softmax(dim=-1).gather(-1, targets[..., None])[..., 0] * (texts.targets != IGNORED)


def train(normalised: Callable[[torch.Tensor, Texts], torch.Tensor], steps: int) -> Run:
    """Trains a fresh copy of the model. Returns what is remembered of it."""
    tokenizer = AutoTokenizer.from_pretrained(STORIES)
    model = AutoModelForCausalLM.from_pretrained(STORIES).float()
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE)
    run = Run()
    for step in range(steps):
        texts = draw(model, tokenizer, step)
        run.rewards.append(texts.reward)
        is_drawn = texts.targets != IGNORED
        for update in range(UPDATES):
            logits = model(texts.tokens).logits[:, :-1]
            differences = normalised(logits, texts) - texts.logprobs
            ratios = (differences.sum(dim=1) / is_drawn.sum(dim=1)).exp()
            gains = ratios * texts.advantages
            clipped_gains = ratios.clamp(1 - CLIP[0], 1 + CLIP[1]) * texts.advantages
            if not len(run.ratios):
                run.ratios, run.text_ratios = differences[is_drawn].detach().exp(), ratios.detach()
            if update == 0:
                run.clipped.append((gains > clipped_gains).float().mean().item())
            loss = -torch.minimum(gains, clipped_gains).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return run


def paint(runs: dict[str, Run], path: Path) -> None:
    # Not above: without --output nobody needs matplotlib.
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams["svg.hashsalt"] = "onedraw"
    colours = ("#3b6ea5", "#d95f02")
    figure = Figure(figsize=(10, 3.2), layout="constrained")
    tokens, texts, clipped = figure.subplots(1, 3)
    edges = [0.8975 + 0.005 * place for place in range(23)]
    for (name, run), colour in zip(runs.items(), colours, strict=True):
        tokens.hist(run.ratios.clamp(edges[0], edges[-1]).numpy(), bins=edges, color=colour, alpha=0.8, label=name)
        texts.plot(sorted(run.text_ratios.tolist()), color=colour, marker=".", linestyle="none")
        clipped.plot([100 * share for share in run.clipped], color=colour, marker=".")
    tokens.set(title="tokens of the first update", xlabel="trainer's probability / sampler's", ylabel="tokens")
    texts.set(title="texts of the first update", xlabel="texts, sorted", ylabel="geometric mean of ratios")
    clipped.set(title="texts that are clipped at once", xlabel="step", ylabel="%", ylim=(-4, 104))
    for axes in (tokens, texts, clipped):
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper left", ncols=2, frameon=False)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10, help="how often texts are drawn and learned from")
    parser.add_argument("--output", type=Path, metavar="FILE", help="a picture of both trainings, .svg or .png")
    asked = parser.parse_args()
    # Sums over one thread have one order.
    torch.set_num_threads(1)
    runs = {"over the kept tokens": train(over_kept, asked.steps), "over the whole vocabulary": train(over_vocabulary, asked.steps)}
    for name, run in runs.items():
        low, high = run.ratios.min().item(), run.ratios.max().item()
        print(f"{name}: ratios of the first update from {low:.6f} to {high:.6f}, mean {run.ratios.mean().item():.6f}; ", end="")
        print(f"texts from {run.text_ratios.min().item():.6f} to {run.text_ratios.max().item():.6f}")
        print(f"  clipped at once, % of the texts of a step: {' '.join(f'{100 * share:.0f}' for share in run.clipped)}")
        print(f"  mean reward: {' '.join(f'{reward:.2f}' for reward in run.rewards)}")
    if asked.output is not None:
        paint(runs, asked.output)


if __name__ == "__main__":
    main()
