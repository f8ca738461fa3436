#!/usr/bin/env python3
"""Measures what guesses gain as a user meets them: one cold process for each text, beside plain decoding in turns.

    cargo build --release -p onedraw-cli
    python3 bench/cold.py [--busy] [--rounds 5] [--prompts 16] [--only draft,eagle] [--model DIR] [--report FILE]

Each round writes every text once with each drafter, and plain decoding before and after them, with the drafters in
another order each time. What counts is tokens a second after the prompt: the target, the guesses and the draws. A text's
ratio is the median of its rounds, of which each is beside the mean of the two plain texts around it; a cell of the table
has the median of the prompts and the lowest. Texts must be equal. `plain again` is the second plain text beside the
first: the noise.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

DRAFTERS = {
    "draft model": ["--draft"],
    "early exit after 2": ["--early-exit", "2"],
    "early exit after 3": ["--early-exit", "3"],
    "EAGLE tree": ["--eagle"],
    "n-gram": ["--ngram", "3"],
}
PRESETS = ["deterministic", "precise", "balanced", "creative"]
STORIES = [
    "Once upon a time", "One day, Tom and Lily", "The little dog", "A bird sat in a tree", "Mom said",
    "There was a small house", "Lily had a red ball", "It was a sunny day", "Tom saw a big", "In the forest",
    "The cat and the mouse", "Ben wanted to", "A girl named Sue", "The old man", "Every morning", "Tim and his dad",
]


def write(program, model, prompt, seed, preset, flags, tokens):
    """The text, and its tokens a second."""
    command = [program, "generate", prompt, "--preset", preset, "--seed", str(seed), "--max-tokens", str(tokens)]
    command += ["--ignore-eos", "--format", "json", *(["--model", model] if model else []), *flags]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if ended.returncode:
        sys.exit(f"{' '.join(command)}: {ended.stderr}")
    line = json.loads(ended.stdout)
    timings = line["timings"]
    seconds = timings["output_seconds"] + timings["sampling_seconds"] + timings.get("draft_seconds", 0.0)
    # The first token comes with the prompt.
    return line["text"], (timings["output_tokens"] - 1) / seconds


def ratios(arguments, preset, drafters):
    """For each drafter, the median of the rounds for each prompt, and the same of plain decoding beside itself."""
    found = {name: [] for name in [*drafters, "plain again"]}
    for number, prompt in enumerate(STORIES[: arguments.prompts]):
        of_rounds = {name: [] for name in found}
        for round in range(arguments.rounds):
            def text(flags):
                return write(
                    arguments.program, arguments.model, prompt, 100 + number, preset, flags, arguments.tokens
                )

            plain_text, before = text([])
            names = list(drafters)
            shift = round % len(names)
            for name in names[shift:] + names[:shift]:
                guessed_text, rate = text(drafters[name])
                if guessed_text != plain_text:
                    sys.exit(f"another text: {name}, {preset}, {prompt!r}")
                _, after = text([])
                of_rounds[name].append(rate / ((before + after) / 2))
                of_rounds["plain again"].append(after / before)
                before = after
        for name, values in of_rounds.items():
            found[name].append(statistics.median(values))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="target/release/onedraw")
    parser.add_argument("--model", help="another target; its folder")
    parser.add_argument("--busy", action="store_true", help="with another process on each core")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompts", type=int, default=len(STORIES))
    parser.add_argument("--tokens", type=int, default=150)
    parser.add_argument("--presets", default=",".join(PRESETS))
    parser.add_argument("--only", help="parts of the drafters' names, with commas")
    parser.add_argument("--report", type=pathlib.Path)
    arguments = parser.parse_args()
    wanted = arguments.only.split(",") if arguments.only else [""]
    drafters = {name: flags for name, flags in DRAFTERS.items() if any(part in name for part in wanted)}
    busy = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(os.cpu_count() if arguments.busy else 0)
    ]
    try:
        table = {preset: ratios(arguments, preset, drafters) for preset in arguments.presets.split(",")}
    finally:
        for process in busy:
            process.kill()
    lines = [
        f"{arguments.tokens} tokens, {arguments.prompts} prompts, {arguments.rounds} rounds, "
        f"{'a busy machine' if arguments.busy else 'an idle machine'}, {datetime.date.today()}, {processor()}",
        "",
        "| drafter | " + " | ".join(table) + " |",
        "|---|" + "---:|" * len(table),
    ]
    for name in [*drafters, "plain again"]:
        cells = [f"{statistics.median(found[name]):.2f} ({min(found[name]):.2f})" for found in table.values()]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    report = "\n".join(lines) + "\n"
    print(report, end="")
    if arguments.report:
        arguments.report.write_text(report)


def processor():
    names = [line for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return names[0].split(":")[1].strip() if names else platform.processor()


if __name__ == "__main__":
    main()
