"""The page of a run of the grid, as Markdown: page.py ONEDRAW.md [ANSWERS.json...]

ONEDRAW.md is the table that onedraw's own test wrote. An ANSWERS.json is what another system wrote for the same rows:
its name (`system`), what is to know of it (`about`), the ways to guess (`columns`), and for each row and way its `texts`, or
why it `refused` or `failed`.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def digest(texts: list[Any]) -> str:
    """The first five bytes of SHA-256."""
    return hashlib.sha256(json.dumps(texts, separators=(",", ":")).encode()).hexdigest()[:10]


def furthest(one: list[Any], other: list[Any]) -> float:
    """The largest difference of logprobs of the same tokens."""
    pairs = (pair for mine, yours in zip(one, other, strict=True) for pair in zip(mine["logprobs"], yours["logprobs"], strict=True))
    mine_and_yours = (({entry[0]: entry[1] for entry in mine}, {entry[0]: entry[1] for entry in yours}) for mine, yours in pairs)
    return max((abs(mine[token] - yours[token]) for mine, yours in mine_and_yours for token in mine.keys() & yours.keys()), default=0.0)


def shown(cell: dict[str, Any], plain: dict[str, Any], notes: list[str]) -> str:
    """A cell: a hash, and how it differs from that of plain decoding; or the number of a note."""
    for outcome in ("refused", "failed"):
        if outcome in cell:
            # A number that nobody has set is another one in every run.
            message = re.sub(r"-?\d{6,}", "…", cell[outcome])
            if message not in notes:
                notes.append(message)
            return f"{outcome} ({notes.index(message) + 1})"
    texts, others = cell["texts"], plain.get("texts")
    name = f"`{digest(texts)}`"
    if others is None or texts == others:
        return name
    different = sum(one["tokens"] != other["tokens"] for one, other in zip(texts, others, strict=True))
    if different:
        return f"**{name}** other text: {different} of {len(texts)}"
    return f"**{name}** same text, logprobs differ by up to {furthest(texts, others):.1e}"


def table(answers: dict[str, Any]) -> str:
    """The rows of another system."""
    notes: list[str] = []
    lines = [["settings", *answers["columns"]], ["---"] * (1 + len(answers["columns"]))]
    for row in answers["rows"]:
        plain, *guessing = row["cells"]
        lines.append([row["name"], *(shown(cell, plain, notes) for cell in (plain, *guessing))])
    page = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    page += "".join(f"\n({number}) {note}\n" for number, note in enumerate(notes, 1))
    accepted = []
    for place, way in enumerate(answers["columns"]):
        cells = [row["cells"][place] for row in answers["rows"]]
        drafted, held = (sum(cell.get(name, 0) for cell in cells) for name in ("drafted", "accepted"))
        if drafted:
            accepted.append(f"{way} {held} of {drafted}")
    return f"{page}\nGuesses that were accepted: {', '.join(accepted)}.\n"


def rows() -> dict[str, Any]:
    """What is asked for."""
    asked: dict[str, Any] = json.loads((ROOT / "bench/grid/rows.json").read_text())
    return asked


def same() -> str:
    """The rows that have the text of another one."""
    asked = rows()
    return ", ".join(f"{row['name']} and {row['text_of']}" for row in asked["rows"] + asked["more"] if "text_of" in row)


def settings() -> str:
    """What the names of the rows stand for."""
    asked = rows()
    lines = []
    for row in asked["rows"] + asked["more"]:
        schema = f", the schema `{row['schema']}`" if "schema" in row else ""
        lines.append(f"| {row['name']} | `{json.dumps(row['params'])}`{schema} | {row.get('length', asked['length'])} |\n")
    return "| settings | parameters; the others have their defaults | tokens |\n|---|---|---:|\n" + "".join(lines)


def machine() -> str:
    info = Path("/proc/cpuinfo").read_text().splitlines()
    model = next(line.split(":")[1].strip() for line in info if line.startswith("model name"))
    return f"{os.cpu_count()} cores of an {model}"


def commit() -> str:
    return subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def main() -> None:
    own, *others = sys.argv[1:]
    systems = [json.loads(Path(file).read_text()) for file in others]
    print(f"# One hash for each row, {datetime.date.today()}\n")
    print(f"`bench/grid/run` at commit {commit()}, on {machine()}. A hash is the first five bytes of SHA-256")
    print("over the texts of a row, their tokens, logprobs and ranks, and the reasons of their ends: one prompt alone, two side by side,")
    print("and three side by side. In a row, every drafter has to give the hash of plain decoding.\n")
    print("## onedraw\n")
    print("In each cell a drafter guesses in five full trees (1 × 1, 1 × 4, 2 × 3, 3 × 2 and 4 × 1, width × depth) and in one that adapts. *early")
    print("exit N* is the model after N of its layers; *random* guesses by noise; *adversary* guesses what the model finds least")
    print("likely; *itself* is the model, which knows what it will draw. The texts of all rows differ, but for these, which differ in")
    print(f"their logprobs alone: {same()}. The test asserts it.\n")
    print(Path(own).read_text())
    print(f"{settings()}\nSeeds and prompts are in `bench/grid/rows.json`. How much the adapting tree guesses follows from times, so the numbers")
    print("of guesses are others in every run; the hashes are not.")
    for answers in systems:
        print(f"\n## {answers['system']}\n")
        print("Its own sampler and its own guesses, with the same model in f32, the same prompts and seeds, one text at a time. The texts are")
        print("others than onedraw's, because the samplers are. Bold: not the hash without guesses.")
        print(f"{answers['about']}\n")
        print(table(answers), end="")


main()
