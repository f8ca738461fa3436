"""Requests of many kinds, as JSON: what `write.py` is given."""

from __future__ import annotations

from typing import Any

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["name", "age"],
    "additionalProperties": False,
}

N_GRAM = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 3, "prompt_lookup_min": 1}

NEIGHBOURS = 7
"""The seed of requests that are there to be neighbours."""

PROMPTS = ("Once upon a time", "Lily saw a", "One day, Tom and his dog", "The little bird wanted to")

KINDS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0},
    "temperature": {"temperature": 0.9},
    "top-k": {"temperature": 0.8, "top_k": 20},
    "top-p": {"temperature": 1.0, "top_p": 0.8},
    "top-k and top-p": {"temperature": 0.7, "top_k": 50, "top_p": 0.9},
    "min-p": {"temperature": 1.2, "min_p": 0.05},
    "penalties": {"temperature": 0.8, "repetition_penalty": 1.2, "frequency_penalty": 0.3, "presence_penalty": 0.2},
    "bias": {"temperature": 0.8, "logit_bias": {"438": 3.0, "491": -100.0}},
    "bad words": {"temperature": 0.8, "bad_words": ["Lily", "a big", "happy"]},
    "min tokens": {"temperature": 0.6, "min_tokens": 20},
    "allowed": {"temperature": 1.0, "allowed_token_ids": list(range(250, 1200))},
    "logprobs": {"temperature": 0.8, "top_p": 0.95, "logprobs": 4},
    "schema": {"temperature": 0.9, "structured_outputs": SCHEMA},
    "typical": {"temperature": 1.0, "extra_args": {"onedraw": {"typical_p": 0.9}}},
    "sigma and DRY": {"temperature": 1.1, "extra_args": {"onedraw": {"top_n_sigma": 1.5, "dry_multiplier": 0.8}}},
    "XTC": {"temperature": 0.8, "extra_args": {"onedraw": {"xtc_probability": 0.5, "xtc_threshold": 0.1}}},
    "mirostat": {"temperature": 1.0, "extra_args": {"onedraw": {"mirostat": 2, "mirostat_tau": 3.0}}},
}


def requests(length: int = 48, kinds: dict[str, dict[str, Any]] = KINDS) -> list[dict[str, Any]]:
    """One request of each kind, with prompts and seeds that differ."""
    return [{"prompt": PROMPTS[place % len(PROMPTS)], "params": {"max_tokens": length, "seed": 1000 + place, **params}} for place, params in enumerate(kinds.values())]
