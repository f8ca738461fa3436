"""The types of arguments. This file is for type checkers only: at run time there is no such module."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, Protocol, SupportsIndex, TypeAlias, TypedDict

import numpy as np
from numpy.typing import NDArray

from ._onedraw import Edit, SamplingParams, Truncation

class SupportsDLPack(Protocol):
    """A tensor of PyTorch, JAX and others."""
    # Libraries differ in what it takes.
    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...

class HasCudaStream(Protocol):
    """A stream of PyTorch."""
    @property
    def cuda_stream(self) -> int: ...

class HasPointer(Protocol):
    """A stream of CuPy."""
    @property
    def ptr(self) -> int: ...

class SupportsCudaStream(Protocol):
    """A stream of any library that follows the protocol."""
    def __cuda_stream__(self) -> tuple[int, int]: ...

CudaStream: TypeAlias = int | HasCudaStream | HasPointer | SupportsCudaStream

# Arrays have `__dlpack__` too, so one of another dtype passes here and raises `TensorError` when it is read.
Row: TypeAlias = NDArray[np.float32] | NDArray[np.float16] | SupportsDLPack | Sequence[float]
Logits: TypeAlias = Row | Sequence[Row]
Mask: TypeAlias = NDArray[np.uint32] | NDArray[np.int32] | NDArray[np.bool_] | Sequence[bool]
Masks: TypeAlias = Iterable[Mask | None]
# On a device a mask is int32 words.
CudaMask: TypeAlias = Mask | SupportsDLPack
CudaMasks: TypeAlias = Iterable[CudaMask | None] | SupportsDLPack

Int: TypeAlias = int | np.integer[Any]
Float: TypeAlias = float | np.floating[Any] | np.integer[Any]
Token: TypeAlias = SupportsIndex
Tokens: TypeAlias = Iterable[Token]
# Not `Sequence[str]`, which a string is.
Strings: TypeAlias = list[str] | tuple[str, ...]
Prompt: TypeAlias = str | Tokens
Prompts: TypeAlias = list[str] | list[list[int]] | list[tuple[int, ...]] | list[NDArray[Any]]
Path: TypeAlias = str | PathLike[str]

Stage: TypeAlias = str | Edit | Truncation
Change: TypeAlias = dict[int, float] | Row | None
FinishReason: TypeAlias = Literal["eos", "stop", "length"]
PenaltyScope: TypeAlias = Literal["output", "all"]
LogprobsMode: TypeAlias = Literal["raw_logprobs", "raw_logits", "processed_logprobs", "processed_logits"]
KeptMode: TypeAlias = Literal["none", "summary", "ids"]
Kernel: TypeAlias = Literal["auto", "scalar", "sse", "avx2", "avx512", "neon", "cuda"]
Verify: TypeAlias = Literal["exact", "rejection", "block", "typical"]
BeamStyle: TypeAlias = Literal["hf", "vllm", "gnmt"]
EarlyStopping: TypeAlias = bool | Literal["never"] | None
Continuation: TypeAlias = Callable[[int, int], str | None]
Source: TypeAlias = Literal["openai", "vllm", "llama.cpp", "huggingface"]

class Parameters(TypedDict, total=False):
    """Every sampling parameter with the types that it takes. `SamplingParams` says what each does."""
    temperature: Float
    top_k: Int
    top_p: Float
    min_p: Float
    repetition_penalty: Float
    frequency_penalty: Float
    presence_penalty: Float
    penalty_window: Int
    penalty_scope: PenaltyScope
    logit_bias: Mapping[int, float] | Mapping[str, float]
    allowed_token_ids: Iterable[Int] | None
    bad_words_ids: Iterable[Iterable[Int]]
    bad_words: Strings
    min_tokens: Int
    max_tokens: Int
    stop: str | Iterable[str] | None
    stop_token_ids: Iterable[Int]
    ignore_eos: bool
    include_stop_str_in_output: bool
    eos_token_id: Int | Iterable[Int] | None
    seed: Int | None
    n: Int
    logprobs: Int | None
    logprobs_mode: LogprobsMode
    probability: bool
    kept: KeptMode
    prompt_logprobs: Int | None
    banned_strings: Strings
    prompt_token_ids: Iterable[Int]
    output_token_ids: Iterable[Int]
    typical_p: Float
    top_n_sigma: Float
    epsilon_cutoff: Float
    eta_cutoff: Float
    top_a: Float
    xtc_probability: Float
    xtc_threshold: Float
    xtc_protected_token_ids: Iterable[Int]
    mirostat: Int
    mirostat_tau: Float
    mirostat_eta: Float
    mirostat_mu: Float | None
    dynatemp_range: Float
    dynatemp_exponent: Float
    smoothing_factor: Float
    smoothing_curve: Float
    dry_multiplier: Float
    dry_base: Float
    dry_allowed_length: Int
    dry_penalty_last_n: Int
    dry_sequence_breakers: Iterable[Iterable[Int]]
    no_repeat_ngram_size: Int
    order: str | Iterable[Stage] | None

Params: TypeAlias = SamplingParams | dict[str, Any] | str | None
EachParams: TypeAlias = Params | Sequence[Params]
