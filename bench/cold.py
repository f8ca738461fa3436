#!/usr/bin/env python3
"""Measures what guesses gain as a user meets them: one cold process for each text, beside plain decoding in turns.

    cargo build --release -p onedraw-cli
    python3 bench/cold.py [--busy] [--rounds 5] [--prompts 16] [--only draft,eagle] [--model DIR] [--report FILE]

Each round writes every text once with each drafter, and plain decoding before and after them, with the drafters in
another order each time. What counts is tokens a second after the prompt: the target, the guesses and the draws. A text's
ratio is the median of its rounds, of which each is beside the mean of the two plain texts around it; a cell of the table
has the median of the prompts and the lowest. Texts must be equal. `plain again` is the second plain text beside the
first: the noise.

A second table has what the policy decided, by its own log of one more text for each prompt: how many of the passes had
guesses, how often guesses began to rest in a text, and what they gained or lost in it, in plain passes.
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
import tempfile

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


def generate(arguments, number, preset, flags):
    """What the program says of one text."""
    command = [arguments.program, "generate", STORIES[number], "--preset", preset, "--seed", str(100 + number)]
    command += ["--max-tokens", str(arguments.tokens), "--ignore-eos", "--format", "json"]
    command += [*(["--model", arguments.model] if arguments.model else []), *flags]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if ended.returncode:
        sys.exit(f"{' '.join(command)}: {ended.stderr}")
    return json.loads(ended.stdout)


def write(arguments, number, preset, flags):
    """The text, and its tokens a second."""
    line = generate(arguments, number, preset, flags)
    timings = line["timings"]
    seconds = timings["output_seconds"] + timings["sampling_seconds"] + timings.get("draft_seconds", 0.0)
    # The first token comes with the prompt.
    return line["text"], (timings["output_tokens"] - 1) / seconds


def ratios(arguments, preset, drafters):
    """For each drafter, the median of the rounds for each prompt, and the same of plain decoding beside itself."""
    found = {name: [] for name in [*drafters, "plain again"]}
    for number in range(arguments.prompts):
        of_rounds = {name: [] for name in found}
        for round in range(arguments.rounds):
            plain_text, before = write(arguments, number, preset, [])
            names = list(drafters)
            shift = round % len(names)
            for name in names[shift:] + names[:shift]:
                guessed_text, rate = write(arguments, number, preset, drafters[name])
                if guessed_text != plain_text:
                    sys.exit(f"another text: {name}, {preset}, {STORIES[number]!r}")
                _, after = write(arguments, number, preset, [])
                of_rounds[name].append(rate / ((before + after) / 2))
                of_rounds["plain again"].append(after / before)
                before = after
        for name, values in of_rounds.items():
            found[name].append(statistics.median(values))
    return found


def decided(arguments, preset, flags):
    """A cell of the second table."""
    with_guesses, passes, rests, gains = 0, 0, 0, []
    for number in range(arguments.prompts):
        with tempfile.NamedTemporaryFile() as log:
            line = generate(arguments, number, preset, [*flags, "--speculation-log", log.name])
            logged = [json.loads(text) for text in log]
        guessed = [entry for entry in logged if entry["guesses"]]
        with_guesses, passes = with_guesses + len(guessed), passes + len(logged)
        rests += line["speculation"]["rests"]
        gains.append(sum(entry["tokens"] - entry["seconds"] / entry["plain_seconds"] for entry in guessed))
    share = 100 * with_guesses / passes
    return f"{share:.0f} %, {rests / arguments.prompts:.1f}, {statistics.median(gains):+.0f} ({min(gains):+.0f})"


def table(head, presets, rows):
    lines = [f"| {head} | " + " | ".join(presets) + " |", "|---|" + "---:|" * len(presets)]
    return [*lines, *(f"| {name} | " + " | ".join(cells) + " |" for name, cells in rows.items()), ""]


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
    presets = arguments.presets.split(",")
    try:
        found = {preset: ratios(arguments, preset, drafters) for preset in presets}
        decisions = {
            name: [decided(arguments, preset, flags) for preset in presets] for name, flags in drafters.items()
        }
    finally:
        for process in busy:
            process.kill()
    rates = {
        name: [f"{statistics.median(found[preset][name]):.2f} ({min(found[preset][name]):.2f})" for preset in presets]
        for name in [*drafters, "plain again"]
    }
    lines = [
        f"{arguments.tokens} tokens, {arguments.prompts} prompts, {arguments.rounds} rounds, "
        f"{'a busy machine' if arguments.busy else 'an idle machine'}, {datetime.date.today()}, {processor()}",
        "",
        *table("times as fast as plain", presets, rates),
        *table("passes with guesses, rests, gained", presets, decisions),
    ]
    report = "\n".join(lines)
    print(report, end="")
    if arguments.report:
        arguments.report.write_text(report)


def processor():
    names = [line for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return names[0].split(":")[1].strip() if names else platform.processor()


if __name__ == "__main__":
    main()
