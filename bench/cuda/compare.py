"""Two copies of the package `onedraw` in turns on one GPU: what takes longer with the second?

    python compare.py OLD NEW [--turns 5] [--names START ...] [--most 1.03]

OLD and NEW are folders with an installed or unpacked package each. Every turn measures both, each in a process of its own (the table `usual` of
`measure.py`), the old one first in every other turn. Prints the medians of the turns and their ratio, and – where a number is missing; the exit code
is 1 if a ratio is above `--most`, or missing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

MEASURE = Path(__file__).resolve().with_name("measure.py")
BATCHES = [1, 8, 64, 256]
Turn = dict[str, list[float | None]]


def measured(package: Path, names: list[str]) -> Turn:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "numbers.json"
        path = os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, str(MEASURE), "--alone", "--tables", "usual", "--names", *names, "--json", str(file)]
        done = subprocess.run(command, check=False, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{package}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        turn: Turn = json.loads(file.read_text(encoding="utf-8"))["usual"]
    return turn


def medians(turns: list[list[Turn]], name: str, column: int) -> list[float] | None:
    """The medians of a cell, of the old package and of the new one; `None` if a turn of one has no number."""
    found = []
    for each in turns:
        numbers = [turn.get(name, [])[column : column + 1] for turn in each]
        known = [number for cell in numbers for number in cell if number is not None]
        if len(known) < len(each):
            return None
        found.append(statistics.median(known))
    return found


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("old", type=Path)
    arguments.add_argument("new", type=Path)
    arguments.add_argument("--turns", type=int, default=5)
    arguments.add_argument("--names", nargs="+", default=[""], metavar="START", help="only lines whose names begin with one of these")
    arguments.add_argument("--most", type=float, default=1.03, help="the largest ratio that is no error")
    asked = arguments.parse_args()
    packages = [asked.old.resolve(), asked.new.resolve()]
    for package in packages:
        if not (package / "onedraw" / "__init__.py").is_file():
            arguments.error(f"there is no package onedraw in {package}")
    turns: list[list[Turn]] = [[], []]
    for turn in range(asked.turns):
        for which in (0, 1) if turn % 2 == 0 else (1, 0):
            turns[which].append(measured(packages[which], asked.names))
            print(f"turn {turn + 1}: {('old', 'new')[which]} measured", file=sys.stderr, flush=True)

    worst, missing = 0.0, 0
    print(f"µs, old → new (ratio), medians of {asked.turns} turns, by rows of the batch\n")
    print("| |" + "".join(f" {rows} |" for rows in BATCHES) + "\n|---|" + "---|" * len(BATCHES))
    for name in turns[0][0]:
        cells = []
        for column in range(len(BATCHES)):
            both = medians(turns, name, column)
            if both is None:
                missing += 1
                cells.append(" – |")
                continue
            old, new = both
            worst = max(worst, new / old)
            cells.append(f" {old:.2f} → {new:.2f} ({new / old:.3f}) |")
        print(f"| {name} |" + "".join(cells))
    print(f"\nThe largest ratio is {worst:.3f}; up to {asked.most} is asked for." + (f" Missing numbers: {missing}." if missing else ""))
    sys.exit(worst > asked.most or missing > 0)


if __name__ == "__main__":
    main()
