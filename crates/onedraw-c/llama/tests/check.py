"""What llama.cpp and onedraw make of the story model, side by side. Needs NumPy.

    check.py draws ONEDRAW TOKENS-PROGRAM MODEL.gguf PARAMETERS
        every token that is drawn in llama.cpp is the one that `onedraw sample` draws from the same logits
    check.py logits ONEDRAW ROWS-PROGRAM F32.gguf BF16.gguf
        llama.cpp's logits are near those of onedraw's own model
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

PROMPT = "One day, a little girl named Lily went to the park. She saw 2 big dogs, and"
# The largest difference of a logit. bf16 is wider, because llama.cpp rounds the activations to bf16 as well.
NEAR = {"f32": 2e-4, "bf16": 0.3}


def draws(onedraw, program, model, parameters):
    folder = Path(tempfile.mkdtemp())
    subprocess.run([program, model, parameters, folder / "logits", folder / "tokens"], check=True)
    lines = Path(parameters).read_text().splitlines()
    rows = np.fromfile(folder / "logits", "<f4").reshape(len(lines), -1)
    np.save(folder / "logits.npy", rows)
    (folder / "params.json").write_text(f"[{','.join(lines)}]")
    command = [onedraw, "sample", folder / "logits.npy", "--params", f"@{folder / 'params.json'}"]
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    ours = {}
    for line in process.stdout.splitlines():
        result = json.loads(line)
        # Of n sequences, a sampler is the first.
        ours.setdefault(result["row"], result)
    assert len(ours) == len(lines), (len(ours), len(lines))
    refused = 0
    for row, line in enumerate((folder / "tokens").read_text().splitlines()):
        in_place, through, error = line.split()
        if "error" in ours[row]:
            expected, refused = "-1", refused + 1
            assert error == ours[row]["error"]["kind"], (row, error, ours[row], lines[row])
        else:
            expected = str(ours[row]["token"])
        assert in_place == through == expected, (row, line, ours[row], lines[row])
    assert process.returncode == (1 if refused else 0), process.returncode
    assert refused < len(lines) // 10
    different = len({ours[row].get("token") for row in ours})
    print(f"{len(lines)} sets of parameters draw the tokens of `onedraw sample` ({different} tokens, {refused} refused by both)")


def logits(onedraw, program, *models):
    folder = Path(tempfile.mkdtemp())
    asked = ["--temperature", "0", "--max-tokens", "60", "--logprobs=-1", "--logprobs-mode", "raw_logits", "--format", "json"]
    text = json.loads(subprocess.run([onedraw, "generate", PROMPT, *asked], check=True, stdout=subprocess.PIPE).stdout)
    (folder / "tokens").write_text(" ".join(map(str, text["tokens"])))
    ours = np.empty((len(text["tokens"]), 4096))
    for row, entry in zip(ours, text["logprobs"], strict=True):
        listed = entry["logprobs"]
        assert len(listed) == 4096
        row[[token["token"] for token in listed]] = [token["logprob"] for token in listed]
    for model, (kind, near) in zip(models, NEAR.items(), strict=True):
        subprocess.run([program, model, PROMPT, folder / "tokens", folder / kind], check=True)
        theirs = np.fromfile(folder / kind, "<f4").reshape(ours.shape)
        difference = np.abs(theirs - ours)
        print(f"{kind}: {len(ours)} rows, logits {difference.max():.2g} apart at most, {difference.mean():.2g} in the mean")
        assert 0 < difference.max() < near
        assert kind != "f32" or (theirs.argmax(1) == ours.argmax(1)).all()


{"draws": draws, "logits": logits}[sys.argv[1]](*sys.argv[2:])
