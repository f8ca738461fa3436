"""Writes golden/draws.json and golden/speculation.json as tables in C: golden.py GOLDEN > golden.inc"""

import json
import sys
from pathlib import Path

golden = Path(sys.argv[1])


def string(value):
    return json.dumps(json.dumps(value))


def numbers(values):
    return "{" + ", ".join(str(value) for value in values) + "}"


draws = json.loads((golden / "draws.json").read_text("utf-8"))
print("static const struct golden_draws draws[] = {")
for case in draws:
    row, params = case["row"], case["params"]
    # The only list; its vocabulary is its length.
    logits = ["-INFINITY" if logit is None else f"{logit}f" for logit in row.get("logits", [])]
    print(
        f'    {{.shape = "{row["shape"]}", .vocabulary = {row.get("vocabulary", len(logits))}, .seed = {row.get("seed", 0)}u,'
        f" .list = {numbers(logits or [0])}, .begun = {len(params.get('output_token_ids', []))},\n     .params = {string(params)},\n"
        f"     .tokens = {numbers(case['tokens'])}, .uniform = {numbers(case['uniform'])}, .kept = {case['kept']},"
        f" .bits = UINT64_C({case['first_logprob_bits']})}},"
    )
print("};\n\nstatic const struct golden_verdict verdicts[] = {")
for case in json.loads((golden / "speculation.json").read_text("utf-8")):
    if case["verify"] == "exact":
        parents = [-1 if parent is None else parent for parent in case["parents"]]
        print(
            f"    {{.params = {string(case['params'])}, .count = {len(parents)}, .guesses = {numbers(case['guesses'])},"
            f" .parents = {numbers(parents)},\n     .accepted = {len(case['path'])}, .path = {numbers(case['path'] or [0])},"
            f" .tokens = {numbers(case['tokens'])}}},"
        )
print("};")
