"""A request's parameters: vLLM's own, and those that only onedraw has."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

from .._onedraw import CudaError, ParamError, SamplingParams
from .._onedraw import cuda_check as check

SAME = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "min_tokens",
    "max_tokens",
)
"""Parameters with the name and the meaning that they have here."""

LEFT_TO_VLLM = (
    "n",
    "stop",
    "include_stop_str_in_output",
    "ignore_eos",
    "detokenize",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "output_kind",
    "stream_interval",
    "structured_outputs",
    "prompt_logprobs",
    "prompt_logprob_token_ids",
    "prompt_logprob_start",
    "logprob_token_ids",
    "flat_logprobs",
    "thinking_token_budget",
    "repetition_detection",
    "skip_reading_prefix_cache",
    "routed_experts_prompt_start",
    "skip_clone",
    "output_text_buffer_length",
)
"""Parameters that other parts of vLLM carry out, before or after the draw."""

DRAWN_HERE = (*SAME, "seed", "logprobs", "logit_bias", "allowed_token_ids", "stop_token_ids", "bad_words", "extra_args")
"""Parameters of vLLM that a draw uses."""

REFUSED = ("watermarking", "trace_decode_token_ids")
"""Parameters of vLLM that ask for another sampler."""

NO_PLACE = ("banned_strings", "bad_words_ids", "eos_token_id", "kept", "logprobs_mode", "output_token_ids", "probability", "prompt_token_ids")
"""Parameters of onedraw that vLLM has another way for, or no place in its results. All others that vLLM does not
have are for `extra_args["onedraw"]`."""

SHORT_LIST = 1024
"""The most logprobs that a device lists without sorting whole rows."""

LIST_BYTES = 1 << 30
"""The device memory that lists of logprobs may take in an engine. The value is a choice: vLLM gives most of the memory to
its cache, and what is left must do for all rows of a step."""

SEEDS = 2**64
# Below this temperature vLLM is greedy.
_GREEDY = 1e-5


def ours(params: Any) -> Mapping[str, Any]:
    """What `extra_args["onedraw"]` of a request holds."""
    given = (params.extra_args or {}).get("onedraw", {})
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError as error:
            raise wrong("extra_args", f"`onedraw` cannot be read as JSON: {error}") from None
    if not isinstance(given, Mapping):
        raise wrong("extra_args", f"`onedraw` holds parameters by name, or such an object as JSON in a string, not {given!r}")
    for name in given:
        if name in DRAWN_HERE or name in LEFT_TO_VLLM:
            raise wrong(name, "is vLLM's own parameter; give it there, not in extra_args['onedraw']")
        if name in NO_PLACE:
            raise wrong(name, "cannot be set for a request of vLLM")
    return given


def listed(params: Any, mode: str) -> int | None:
    """How many logprobs a request wants whose token is the best of a list: vLLM reports processed logprobs of greedy
    requests as if their temperature were 1."""
    is_greedy: bool = params.temperature < _GREEDY
    return params.logprobs if is_greedy and mode.startswith("processed") else None


def translated(params: Any, *, mode: str, vocabulary: int, prompt: Iterable[int] | None = None, masks: bool = False) -> SamplingParams:
    """A request's parameters as onedraw's; with `masks` its draws report the ids that were kept. An error names the
    parameter that cannot be used."""
    given = {name: getattr(params, name) for name in SAME if getattr(params, name) is not None}
    if params.temperature < _GREEDY:
        given["temperature"] = 0.0 if listed(params, mode) is None else 1.0
    # vLLM keeps everything then, too.
    given["top_k"] = min(params.top_k, vocabulary)
    if params.seed is not None:
        given["seed"] = params.seed % SEEDS
    if params.logprobs is not None:
        # The best of a list must be on it.
        given["logprobs"] = params.logprobs or (0 if listed(params, mode) is None else 1)
        given["logprobs_mode"] = mode
    if params.logit_bias:
        given["logit_bias"] = {int(token): bias for token, bias in params.logit_bias.items()}
    if params.allowed_token_ids is not None:
        given["allowed_token_ids"] = params.allowed_token_ids
    if params.bad_words_token_ids:
        given["bad_words_ids"] = params.bad_words_token_ids
    # With what ends a text without being asked for: `min_tokens` keeps all of it away.
    # Tokens outside of the vocabulary have no logit, so that they cannot end a text.
    given["stop_token_ids"] = sorted(token for token in params.all_stop_token_ids if token < vocabulary)
    # Those that stand for a picture are outside of it.
    given["prompt_token_ids"] = [token for token in prompt or () if 0 <= token < vocabulary]
    if masks:
        given["kept"] = "ids"
    return SamplingParams(**given, **ours(params))


def relaxed(params: Any, translated: SamplingParams) -> SamplingParams | None:
    """Parameters for a row of which a grammar leaves only what `min_tokens` keeps away: the grammar decides there."""
    return translated.replace(min_tokens=0) if params.structured_outputs is not None and params.min_tokens else None


def room(most: int, *, rows: int, vocabulary: int) -> int:
    """The logprobs that a device has room for in an engine whose `max_logprobs` is `most`, if a step has so many rows.
    At least one, because `translated` asks for one where the token is the best of a list.

    An entry takes 16 bytes. A list of more than `SHORT_LIST` also takes 16 bytes for each token of the vocabulary, where
    the row is sorted. If this is more than `LIST_BYTES`, lists are shorter than the engine asks for."""
    asked = vocabulary if most < 0 else min(most, vocabulary)
    if asked > SHORT_LIST:
        asked = max(SHORT_LIST, min(asked, LIST_BYTES // (16 * rows) - vocabulary - 1))
    return max(1, asked)


def check_device(params: Any, translated: SamplingParams, *, most: int, vocabulary: int) -> None:
    """An error if only the CPU can draw for a request. `most` is the `room` for logprobs."""
    logprobs = vocabulary if params.logprobs == -1 else min(params.logprobs or 0, vocabulary)
    if logprobs > most:
        limit = f"{LIST_BYTES >> 20} MB of device memory hold no longer lists for all rows of a step"
        raise wrong("logprobs", f"must be in [0, {most}] on this GPU, not {params.logprobs}: {limit}; a smaller max_num_seqs leaves room for more")
    if relaxed(params, translated) is not None:
        raise wrong("min_tokens", "does not work together with structured outputs on a GPU yet")
    try:
        check(translated)
    except CudaError as error:
        # What a device cannot draw, vLLM has no parameter for.
        raise wrong("extra_args", str(error)) from None


def derived_seed(request: str, engine_seed: int) -> int:
    """The seed of a request that has none: the same in all processes, and in another run of the same requests. Small
    enough for the seeds of its texts, which vLLM counts up from it."""
    digest = blake2b(request.encode(), key=(engine_seed % SEEDS).to_bytes(8, "little"), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 2


def signed(seed: int) -> int:
    """The seed with the same 64 bits that has a sign."""
    return (seed + SEEDS // 2) % SEEDS - SEEDS // 2


def wrong(field: str, message: str) -> ParamError:
    """The error of a parameter."""
    error = ParamError(f"{field}: {message}")
    error.field, error.message = field, message
    return error
