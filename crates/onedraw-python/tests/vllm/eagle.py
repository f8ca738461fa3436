"""The story model's EAGLE head in the form that vLLM reads.

vLLM's heads have no norm before their layer and none after it, so the guesses of the converted one are worse than those
of the original. They are guesses all the same.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

NORMS = ("layer.input_layernorm.weight", "norm.weight")


def convert(models: Path, folder: Path) -> Path:
    """Writes the head into a folder."""
    head = load_file(models / "stories-drafters/eagle/model.safetensors")
    named = {name.replace("layer.", "layers.0.", 1): tensor for name, tensor in head.items() if name not in NORMS}
    # The state comes first here, and the embedding there.
    state, embedding = named["fc.weight"].chunk(2, dim=1)
    named["fc.weight"] = torch.cat([embedding, state], dim=1)
    save_file(named, folder / "model.safetensors")
    config = json.loads((models / "stories/config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 1}))
    return folder
