"""From logits to a token: the compiled part of onedraw. The classes for decode loops and for texts of models
are in `_decoding`, those for devices in `_cuda`, kept sets and audits in `_audit`."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, SupportsIndex, final, overload

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self, Unpack

from ._audit import Audit, Audits, EditedRow, Judgement, Kept
from ._cuda import CudaArray, CudaBatch, CudaMessage, CudaRequests, CudaSequenceId, cuda_check, cuda_is_available, cuda_why_not
from ._decoding import (
    Beam, BeamSearch, Contrast, Draft, Event, Expansion, Generated, Generator, Grammar, Guess, Hypothesis, Matcher,
    Progress, RequestId, Rewind, Runner, StopMatcher, Stream, Tokenizer, Utf8Stream, Verdict, Vocabulary,
)
from ._types import (
    Change, CudaMask, CudaMasks, CudaStream, EachParams, Kernel, KeptMode, Logits, LogprobsMode, Mask, Masks, Parameters, Params,
    PenaltyScope, Row, Source, Stage, Token, Tokens, Verify,
)

__all__ = [
    "__version__", "Audit", "audit", "Audits", "Batch", "Beam", "BeamSearch", "Candidate", "ConstraintError", "Contrast", "CudaArray", "CudaBatch",
    "CudaError", "CudaMessage", "CudaRequests", "CudaSequenceId", "cuda_check", "cuda_is_available", "cuda_why_not", "Distribution", "distribution", "Draft", "Edit", "EditedRow",
    "Event", "Expansion", "explain", "Explanation", "Generated", "Generator", "Grammar", "GrammarError", "Guess",
    "headline_field", "Hypothesis", "Judgement", "Kept", "Matcher", "MAX_TOKENS", "ModelError", "OnedrawError", "order", "ParamError", "PRESETS", "Progress", "Report",
    "RequestId", "Rewind", "RowError", "RowsError", "Runner", "sample", "Sampled", "Sampler", "Samples",
    "SamplingParams", "SequenceId", "StageEffect", "StopMatcher", "Stream", "STREAM_VERSION", "TensorError", "Tokenizer", "TokenLogprob",
    "Truncation", "Utf8Stream", "Verdict", "View", "Vocabulary",
]

__version__: str
PRESETS: list[str]
STREAM_VERSION: int
"""The version of the streams: which token a seed draws."""
MAX_TOKENS: int
"""The most tokens of a text if nothing else says how many."""

class OnedrawError(ValueError):
    """What onedraw cannot do, and why."""

class ParamError(OnedrawError):
    """A parameter that cannot be used: `field` is its name, `message` what is wrong with it and what is
    allowed."""
    field: str
    message: str

class TensorError(OnedrawError):
    """Logits that cannot be read in place: they have another dtype, shape, layout or device."""

class RowError(OnedrawError):
    """A row that cannot be sampled: `kind` is a short name of what is wrong, such as `nan_logit`."""
    kind: str

class RowsError(RowError):
    """Rows of a batch that cannot be sampled: `results` has a result or a `RowError` for each row, `errors`
    the bad rows by their number."""
    results: list[Any]
    errors: dict[int, RowError]

class GrammarError(OnedrawError):
    """A vocabulary or a grammar that cannot be used: `line` and `column` say where, if that is known."""
    line: int | None
    column: int | None

class ConstraintError(OnedrawError):
    """A token that the grammar does not allow after a text."""

class ModelError(OnedrawError):
    """A model that cannot be read, or that cannot do what is asked."""

class CudaError(RuntimeError):
    """What cannot be drawn on a CUDA device, and why: no driver, no room, or a stage of your
    own."""

@overload
def sample(logits: Sequence[Row], params: EachParams = None, *, mask: Masks | None = None, **parameters: Unpack[Parameters]) -> Samples:
    """Draws a token: a `Sampled` for one row of logits, `Samples` for several rows or if `n` is above 1. On a
    CUDA device it draws there, on `stream`."""
@overload
def sample(
    logits: Logits,
    params: EachParams = None,
    *,
    mask: CudaMask | CudaMasks | None = None,
    stream: CudaStream | None = None,
    **parameters: Unpack[Parameters],
) -> Sampled | Samples: ...
@overload
def distribution(
    logits: Sequence[Row], params: EachParams = None, *, mask: Masks | None = None, **parameters: Unpack[Parameters]
) -> list[Distribution]:
    """Every token that can be drawn, with its probability: a `Distribution`, or a list of them for several
    rows."""
@overload
def distribution(
    logits: Sequence[float], params: EachParams = None, *, mask: Mask | None = None, **parameters: Unpack[Parameters]
) -> Distribution: ...
@overload
def distribution(
    logits: Logits, params: EachParams = None, *, mask: Mask | Masks | None = None, **parameters: Unpack[Parameters]
) -> Distribution | list[Distribution]: ...
@overload
def explain(
    logits: Sequence[Row], params: EachParams = None, *, listed: int = 10, mask: Masks | None = None, **parameters: Unpack[Parameters]
) -> list[Explanation]:
    """What each stage of the chain does to a row: an `Explanation`, or a list of them for several rows."""
@overload
def explain(
    logits: Sequence[float], params: EachParams = None, *, listed: int = 10, mask: Mask | None = None, **parameters: Unpack[Parameters]
) -> Explanation: ...
@overload
def explain(
    logits: Logits, params: EachParams = None, *, listed: int = 10, mask: Mask | Masks | None = None, **parameters: Unpack[Parameters]
) -> Explanation | list[Explanation]: ...
def audit(
    logits: Logits,
    tokens: Tokens,
    params: Params = None,
    *,
    mask: Masks | None = None,
    sequence: int = 0,
    **parameters: Unpack[Parameters],
) -> Audits:
    """Compares the tokens of a text with those that are drawn. Row i of the logits is what the model gave before token
    i; the parameters need the seed; `sequence` says which of the `n` texts of a request it is."""
def order(name: str) -> list[str]:
    """The names of the stages of an order, to make an order of your own from: `vllm`, `huggingface` or
    `llama.cpp`."""

def headline_field(stage: str) -> str | None:
    """The parameter whose number stands for a stage in a heading; None for a stage that no single number
    describes."""

@final
class SamplingParams:
    """Every parameter of a sequence. It never changes: `replace` makes another one."""
    def __new__(cls, **parameters: Unpack[Parameters]) -> Self: ...
    def replace(self, **parameters: Unpack[Parameters]) -> SamplingParams: """A copy with other values."""
    def with_stage(self, stage: Stage, before: Stage) -> SamplingParams:
        """A copy with a stage (an `Edit`, a `Truncation` or a name) inserted before another one."""
    def check_vocabulary(self, vocabulary: int) -> None:
        """Raises a `ParamError` if an id of the parameters is not a token of a vocabulary of this size."""
    def to_dict(self) -> dict[str, Any]: """All parameters by name."""
    def changed(self) -> dict[str, Any]: """The parameters that differ from their defaults."""
    def to_json(self) -> str:
        """All parameters as JSON. An error if the order has a stage of your own, which cannot be written."""
    @staticmethod
    def from_json(text: str) -> SamplingParams: """Reads one JSON object, as the program does."""
    @staticmethod
    def import_settings(json: str, source: Source | None = None) -> tuple[SamplingParams, list[str]]:
        """Reads the settings of another system. Returns parameters, and a line for each setting that was lost
        or changed."""
    @staticmethod
    def preset(name: str) -> SamplingParams:
        """A preset: `creative`, `precise`, `balanced` or `deterministic`."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, Any]]: ...
    @property
    def temperature(self) -> float:
        """Divides the logits: higher is more random; 0 to 10^6; below 10^-5 the draw is greedy."""
    @property
    def dynatemp_range(self) -> float:
        """Lets the entropy move the temperature up and down by this much; 0 turns it off."""
    @property
    def dynatemp_exponent(self) -> float:
        """The power of the entropy's share of ln(tokens left) that sets the place in that range."""
    @property
    def top_k(self) -> int: """Keeps exactly the k best tokens; 0 or -1 turns it off."""
    @property
    def top_p(self) -> float: """Keeps the shortest prefix whose mass reaches this share; 0 to 1; 1 turns it off."""
    @property
    def min_p(self) -> float: """Keeps tokens at least this many times as likely as the best; 0 to 1; 0 turns it off."""
    @property
    def typical_p(self) -> float:
        """Keeps tokens whose surprise is nearest to the entropy, up to this share; above 0, to 1; 1 turns it off."""
    @property
    def top_n_sigma(self) -> float: """Keeps logits within this many standard deviations of the best; 0 turns it off."""
    @property
    def epsilon_cutoff(self) -> float:
        """Keeps tokens with at least this probability, and the best; 0 to 1; 0 turns it off."""
    @property
    def eta_cutoff(self) -> float:
        """Keeps tokens with a probability of at least min(eta, sqrt(eta)·exp(-entropy)), and the best; 0 turns it
        off."""
    @property
    def top_a(self) -> float:
        """Keeps tokens with a probability of at least a times the best one's square; 0 to 1; 0 turns it off."""
    @property
    def xtc_probability(self) -> float:
        """How often XTC removes all top choices but the least likely; 0 to 1; 0 turns it off."""
    @property
    def xtc_threshold(self) -> float: """The probability from which on XTC counts a token as a top choice; 0 to 1."""
    @property
    def xtc_protected_token_ids(self) -> list[int]: """Ids that XTC never removes, such as newline and EOS."""
    @property
    def mirostat(self) -> int: """Steers the surprise of the text: version 1 or 2; 0 turns it off."""
    @property
    def mirostat_tau(self) -> float: """The surprise that mirostat aims at, in bits."""
    @property
    def mirostat_eta(self) -> float:
        """Mirostat's learning rate: after each token, mu falls by eta times (its surprise - tau)."""
    @property
    def mirostat_mu(self) -> float | None: """Mirostat's state mu, in bits; without it, twice tau."""
    @property
    def repetition_penalty(self) -> float:
        """Divides a positive logit and multiplies a negative one, once for each token seen; above 0."""
    @property
    def frequency_penalty(self) -> float:
        """Subtracted from a logit once for each time the token was seen in the output."""
    @property
    def presence_penalty(self) -> float: """Subtracted from a logit once if the token was seen in the output."""
    @property
    def penalty_window(self) -> int:
        """The three penalties look at this many of the last tokens of prompt and output; 0 means all."""
    @property
    def penalty_scope(self) -> PenaltyScope:
        """What frequency and presence penalty count: `output`, or `all` for the prompt too."""
    @property
    def dry_multiplier(self) -> float:
        """The strength of DRY, which lowers a token that would continue a repetition; 0 turns it off."""
    @property
    def dry_base(self) -> float: """How fast DRY's penalty grows with the length of the repetition; at least 1."""
    @property
    def dry_allowed_length(self) -> int: """Repetitions shorter than this cost nothing."""
    @property
    def dry_penalty_last_n(self) -> int:
        """DRY looks at this many of the last tokens of prompt and output; 0 means all."""
    @property
    def dry_sequence_breakers(self) -> list[list[int]]:
        """Id sequences, of 1 to 20 ids each, across which DRY sees no repetition."""
    @property
    def no_repeat_ngram_size(self) -> int:
        """No sequence of this many tokens appears twice in prompt and output; 0 turns it off."""
    @property
    def smoothing_factor(self) -> float: """Bends the logits around the best one; 0 turns it off."""
    @property
    def smoothing_curve(self) -> float: """The share of the cubic term in the smoothing, from 1 (none) to 3."""
    @property
    def logit_bias(self) -> dict[int, float]:
        """An object {id: number}; the number is added to the logit of that token."""
    @property
    def allowed_token_ids(self) -> list[int] | None: """Only these ids may be drawn."""
    @property
    def bad_words_ids(self) -> list[list[int]]: """Id sequences that must not appear in the output."""
    @property
    def bad_words(self) -> list[str]: """Words that must not appear in the output, as the tokenizer cuts them."""
    @property
    def min_tokens(self) -> int: """EOS and stop ids are banned until this many tokens are written."""
    @property
    def banned_strings(self) -> list[str]:
        """Phrases that must not appear in the text; where one does, the text goes back to before it."""
    @property
    def max_tokens(self) -> int: """The most tokens of a text."""
    @property
    def stop(self) -> list[str]: """Strings that end the text; one string or a list."""
    @property
    def stop_token_ids(self) -> list[int]: """Ids that end the text."""
    @property
    def ignore_eos(self) -> bool: """Goes on after EOS."""
    @property
    def include_stop_str_in_output(self) -> bool: """Leaves the stop string in the text."""
    @property
    def eos_token_id(self) -> list[int]: """The ids that mean the end of a text; one id or a list."""
    @property
    def seed(self) -> int | None: """0 to 2^64 - 1; without it or with -1, one is taken from the system and reported."""
    @property
    def n(self) -> int:
        """How many texts, or draws of a row; 1 to 65,536; they share the seed and have different noise."""
    @property
    def logprobs(self) -> int | None:
        """Reports the drawn token and this many of the best; 0 reports the drawn token alone, -1 all."""
    @property
    def logprobs_mode(self) -> LogprobsMode:
        """What reported numbers are: `raw_logprobs`, `raw_logits`, `processed_logprobs` or `processed_logits`."""
    @property
    def probability(self) -> bool:
        """Reports the probability with which the token was drawn, also where `logprobs_mode` is raw."""
    @property
    def kept(self) -> KeptMode:
        """What to report of the tokens that could have been drawn: `none`, `summary` or `ids`."""
    @property
    def prompt_logprobs(self) -> int | None: """Like `logprobs`, for the tokens of the prompt."""
    @property
    def prompt_token_ids(self) -> list[int]: """The tokens of the prompt, which penalties, DRY and n-grams look at."""
    @property
    def output_token_ids(self) -> list[int]:
        """The tokens written so far; their number is the position of the next draw."""
    @property
    def order(self) -> list[Stage] | None:
        """The order of the stages: `vllm`, `huggingface`, `llama.cpp`, or a list of stages."""

@final
class TokenLogprob:
    """A token with its logprob (or its logit, in the logits modes) and its rank."""
    def __new__(cls, token: Token, logprob: float, rank: int) -> Self: ...
    @property
    def token(self) -> int: """The id."""
    @property
    def logprob(self) -> float: """The natural logarithm of its probability; in the logits modes its logit."""
    @property
    def rank(self) -> int: """1 + the tokens before it in the order."""
    def __eq__(self, other: object, /) -> bool: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]

@final
class Sampled:
    """A drawn token. As an index or an int it is the token's id."""
    @property
    def token(self) -> int: """The token."""
    @property
    def seed(self) -> int: """The seed that drew it."""
    @property
    def position(self) -> int: """The number of output tokens before it."""
    @property
    def sequence(self) -> int: """Which of the `n` sequences it belongs to."""
    @property
    def probability(self) -> float | None:
        """The probability with which it was drawn, where `probability` or `logprobs` is set; else None. In the raw
        modes a batch gives it only where `probability` is set."""
    @property
    def logprob(self) -> float | None:
        """Its logprob (in the logits modes its logit), where `logprobs` is set; else None."""
    @property
    def rank(self) -> int | None:
        """1 + the tokens before it in the order, where `logprobs` is set; else None."""
    @property
    def logprobs(self) -> list[TokenLogprob]:
        """The drawn token, then the best others, where `logprobs` is set; else empty."""
    @property
    def mirostat_mu(self) -> float | None:
        """Mirostat's state mu once the token is accepted; None if mirostat is off."""
    @property
    def kept(self) -> Kept | None:
        """The tokens that could have been drawn, where `kept` asks for them; else None."""
    def to_dict(self) -> dict[str, Any]: """All fields by name."""
    def to_json(self) -> str: """All fields as JSON."""
    @staticmethod
    def from_json(text: str) -> Sampled: """Reads what `to_json` wrote."""
    def __index__(self) -> int: ...
    def __int__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]

@final
class Samples:
    """The tokens of several rows: a sequence of `Sampled`, with their tokens and numbers as arrays."""
    def __new__(cls, sampled: Sequence[Sampled]) -> Self: ...
    def __getnewargs__(self) -> tuple[list[Sampled]]: ...
    @property
    def tokens(self) -> NDArray[np.int64]: """The tokens, int64."""
    @property
    def logprobs(self) -> NDArray[np.float64] | None:
        """Their logprobs, where all rows ask for `logprobs`; else None."""
    @property
    def probabilities(self) -> NDArray[np.float64] | None:
        """The probabilities with which they were drawn, where all rows tell it; else None."""
    @property
    def ranks(self) -> NDArray[np.int64] | None:
        """Their ranks, where all rows ask for `logprobs`; else None."""
    def table(self, best: int, vocabulary: int) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int64]]:
        """The logprobs of all rows as arrays of one width: tokens and logprobs with `best` + 1 columns, the drawn
        token and the best in order, and the ranks of the drawn tokens."""
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: SupportsIndex, /) -> Sampled: ...
    @overload
    def __getitem__(self, index: slice, /) -> Samples: ...
    def __iter__(self) -> Iterator[Sampled]: ...
    def index(self, value: Sampled) -> int: """The place of the first row with this result."""
    def count(self, value: Sampled) -> int: """How many rows have this result."""
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]: ...
    def __eq__(self, other: object, /) -> bool: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]

@final
class Distribution:
    """The whole distribution that is drawn from: the kept tokens, the most likely first."""
    def __new__(cls, tokens: Tokens, probabilities: Sequence[float], logprobs: Sequence[float]) -> Self: ...
    def __getnewargs__(self) -> tuple[list[int], list[float], list[float]]: ...
    @property
    def tokens(self) -> NDArray[np.int64]: """The ids, int64: logit descending, then id ascending."""
    @property
    def probabilities(self) -> NDArray[np.float64]: """Their probabilities; they sum to 1 within 10^-7."""
    @property
    def logprobs(self) -> NDArray[np.float64]: """The logarithms of the probabilities."""
    def dense(self, vocabulary: int) -> NDArray[np.float64]:
        """The probability of every token of a vocabulary of that size, by id; 0 for removed tokens."""
    def __len__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]

@final
class Candidate:
    """A token and its probability: before the stage for `removed` and `border`, after it for `best` and `leading`."""
    @property
    def token(self) -> int: """The id."""
    @property
    def probability(self) -> float: """Its probability."""
    def __eq__(self, other: object, /) -> bool: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]

@final
class StageEffect:
    """What one stage did."""
    @property
    def stage(self) -> str: """The name of the stage; `row` for the unmodified row."""
    @property
    def tokens(self) -> int: """Tokens left after it."""
    @property
    def mass(self) -> float: """The share of the probability before it that the tokens left had."""
    @property
    def gone(self) -> int: """How many tokens it removed."""
    @property
    def removed(self) -> list[Candidate]: """The most likely of the removed tokens."""
    @property
    def border(self) -> Candidate | None:
        """The last token that stayed, with its probability before the stage, if the stage cut the order at one place;
        else None. A removed token went out by `border.probability - its probability`."""
    @property
    def best(self) -> Candidate: """The best token after it."""
    @property
    def leading(self) -> list[Candidate]: """The most likely tokens after it, the best first."""
    @property
    def entropy(self) -> float: """The entropy after it, in bits."""
    @property
    def temperature(self) -> float: """The temperature in force after it."""
    @property
    def decision(self) -> str | None:
        """What it decided at this draw, if the parameters do not say it; else None."""
    @property
    def nanoseconds(self) -> int:
        """The time it took to find the tokens that are left. A draw needs less, because it only asks about
        its winner."""

@final
class Explanation:
    """What the chain does to one row, stage by stage. Stages that are off are left out."""
    @property
    def stages(self) -> list[StageEffect]:
        """The unmodified row, then each stage in the order of the chain."""
    @property
    def token(self) -> int: """The token that is drawn here."""
    @property
    def probability(self) -> float: """Its probability in the distribution it is drawn from."""
    @property
    def position(self) -> int: """The position that is drawn."""
    @property
    def seed(self) -> int: """The seed."""

@final
class Report:
    """What is reported about one token of a prompt."""
    @property
    def token(self) -> int: """The id."""
    @property
    def logprob(self) -> float: """The natural logarithm of its probability; in the logits modes its logit."""
    @property
    def probability(self) -> float: """Its probability."""
    @property
    def rank(self) -> int: """1 + the tokens before it in the order."""
    @property
    def logprobs(self) -> list[TokenLogprob]: """The token itself, then the best others."""

@final
class View:
    """What a stage written in Python sees: the logits after the stages before it, and the sequence."""
    @property
    def logits(self) -> NDArray[np.float32]:
        """The logit of every token, a copy as float32; -inf for removed tokens."""
    @property
    def prompt(self) -> list[int]: """The tokens of the prompt."""
    @property
    def output(self) -> list[int]: """The tokens written so far."""
    @property
    def position(self) -> int: """The position that is drawn."""
    @property
    def temperature(self) -> float:
        """The temperature that applies, but by which the logits are not yet divided."""

@final
class Edit:
    """A stage of your own that changes logits: a function of a `View` that returns new logits, of some tokens
    or of all."""
    def __new__(cls, name: str, function: Callable[[View], Change]) -> Self: ...
    @property
    def name(self) -> str: """The name that explanations and errors use."""
    @property
    def function(self) -> Callable[[View], Change]: """The function."""

@final
class Truncation:
    """A stage of your own that keeps a subset: a function of a `View` that returns ids, or an array of bools
    with an entry for every token."""
    def __new__(cls, name: str, function: Callable[[View], Tokens]) -> Self: ...
    @property
    def name(self) -> str: """The name that explanations and errors use."""
    @property
    def function(self) -> Callable[[View], Tokens]: """The function."""

@final
class Sampler:
    """Draws the tokens of one sequence, each with the history of those before it."""
    def __new__(cls, params: Params = None, *, kernel: Kernel = "auto", shards: int = 1, **parameters: Unpack[Parameters]) -> Self: ...
    @classmethod
    def sequences(
        cls, params: Params = None, *, kernel: Kernel = "auto", shards: int = 1, **parameters: Unpack[Parameters]
    ) -> list[Sampler]:
        """One sampler for each of the `n` sequences. They share the seed and have different noise."""
    def sample(self, logits: Row, *, mask: Mask | None = None) -> Sampled:
        """Draws the next token and appends it to the history. A mask limits the draw to the tokens that it
        allows."""
    def peek(self, logits: Row, ahead: int = 0) -> Sampled:
        """Draws `ahead` positions after the next one, without changing the history."""
    def sample_uniform(self, logits: Row, uniform: float) -> Sampled:
        """The token at the share `uniform` in [0, 1) of the kept mass, for callers who have their own
        randomness."""
    def distribution(self, logits: Row, *, mask: Mask | None = None) -> Distribution:
        """Every token that can be drawn next, with its probability."""
    def explain(self, logits: Row, *, listed: int = 10, mask: Mask | None = None) -> Explanation:
        """What each stage does to a row, and which token is drawn. The history does not change."""
    def audit(self, logits: Row, token: Token, *, mask: Mask | None = None) -> Audit:
        """Compares a claimed token with the one that is drawn next. The history does not change; `accept` appends
        the result's token."""
    def edited(self, logits: Row, *, mask: Mask | None = None) -> EditedRow:
        """The next row after the edits with which the chain begins: what the summary of a kept set is about."""
    def prompt_logprobs(self, logits: Logits) -> list[Report | RowError | None]:
        """Logprobs of the prompt, one entry per token: None for the first, a `Report`, or the `RowError` of
        its row."""
    def accept(self, token: Token | Audit) -> None:
        """Appends a token that was chosen elsewhere, one that `peek` drew at the next position, or the claimed token
        of an audit."""
    def rewind(self, length: int) -> None:
        """Takes back the tokens after the first `length` of the output. This is an undo: the same rows draw
        the same tokens again."""
    def take_back(self, rewind: Rewind) -> None:
        """Takes text back because of what was drawn, as a `StopMatcher` decided."""
    def save(self) -> str:
        """Everything a later draw depends on, as JSON. A stage of your own cannot be saved."""
    @staticmethod
    def load(saved: str) -> Sampler: """Restores a saved sampler."""
    @property
    def position(self) -> int: """The position of the next draw: the number of tokens written so far."""
    @property
    def output(self) -> list[int]: """The tokens written so far."""
    @property
    def seed(self) -> int: """The seed: the given one, or one drawn from the system."""
    @property
    def mirostat_mu(self) -> float | None: """Mirostat's state mu, in bits; None if mirostat is off."""
    def __copy__(self) -> Sampler: ...
    def __deepcopy__(self, _memo: object, /) -> Sampler: ...

@final
class SequenceId:
    """Names a sequence of a `Batch`. The name of a removed sequence is not used again."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Batch:
    """Sequences that come and go between steps, each with its own parameters, seed and history."""
    def __new__(cls, *, threads: int = 1, kernel: Kernel = "auto", shards: int = 1) -> Self: ...
    def add(self, params: Params = None, **parameters: Unpack[Parameters]) -> SequenceId:
        """Adds a sequence: the first of the `n` that the parameters ask for. An error in the parameters
        changes nothing."""
    def add_all(self, params: Params = None, **parameters: Unpack[Parameters]) -> list[SequenceId]:
        """Adds all `n` sequences that the parameters ask for. They share one seed."""
    def remove(self, sequence: SequenceId) -> bool: """Removes a sequence. Returns whether it was there."""
    def fork(self, sequence: SequenceId) -> SequenceId:
        """Adds a copy of a sequence, with the same parameters, seed and history. From then on the two are
        independent."""
    @overload
    def sample(self, sequences: SequenceId, logits: Row, *, masks: Mask | None = None) -> Sampled:
        """Draws a token for each sequence from its row and appends it: `Samples`, or for one id a
        `Sampled`."""
    @overload
    def sample(self, sequences: Iterable[SequenceId], logits: Logits, *, masks: Masks | None = None) -> Samples: ...
    @overload
    def peek(self, sequences: SequenceId, logits: Row, ahead: int = 0, *, masks: Mask | None = None) -> Sampled:
        """Like `sample`, but `ahead` positions after the next one, and without changing the histories."""
    @overload
    def peek(self, sequences: Iterable[SequenceId], logits: Logits, ahead: int = 0, *, masks: Masks | None = None) -> Samples: ...
    def _draw_over(
        self,
        sequences: SequenceId | Iterable[SequenceId],
        logits: Row | Logits,
        ahead: int | None,
        *,
        ranks: int,
        vocabulary: int,
        start: int,
        length: int,
        gather: Callable[[bytes | CudaMessage, int], list[bytes]],
        masks: Mask | Masks | None = None,
    ) -> Sampled | Samples: ...
    @overload
    def distributions(self, sequences: SequenceId, logits: Row, *, masks: Mask | None = None) -> Distribution:
        """The whole distribution that each sequence would draw from."""
    @overload
    def distributions(
        self, sequences: Iterable[SequenceId], logits: Logits, *, masks: Masks | None = None
    ) -> list[Distribution]: ...
    @overload
    def explanations(self, sequences: SequenceId, logits: Row, *, listed: int = 10, masks: Mask | None = None) -> Explanation:
        """What each sequence's chain does to its row, stage by stage."""
    @overload
    def explanations(
        self, sequences: Iterable[SequenceId], logits: Logits, *, listed: int = 10, masks: Masks | None = None
    ) -> list[Explanation]: ...
    @overload
    def best(self, sequences: SequenceId, logits: Row, count: int, *, masks: Mask | None = None) -> list[TokenLogprob]:
        """The `count` most likely tokens that the chain of each sequence keeps, as lists of
        `TokenLogprob`."""
    @overload
    def best(
        self, sequences: Iterable[SequenceId], logits: Logits, count: int, *, masks: Masks | None = None
    ) -> list[list[TokenLogprob]]: ...
    @overload
    def accept(self, sequence: SequenceId, token: Token) -> None:
        """Appends a token that was chosen elsewhere, or a `Sampled` that `peek` or `verify` drew at the next
        position; or one of several ids to each of several sequences."""
    @overload
    def accept(self, sequence: Iterable[SequenceId], token: Iterable[int]) -> None: ...
    def rewind(self, sequence: SequenceId, length: int) -> None:
        """Takes back the tokens of a sequence after the first `length` of its output. This is an undo."""
    def take_back(self, sequence: SequenceId, rewind: Rewind) -> None:
        """Takes text back because of what was drawn, as a `StopMatcher` decided."""
    def output(self, sequence: SequenceId) -> list[int]: """The tokens a sequence has written so far."""
    def seed(self, sequence: SequenceId) -> int:
        """The seed of a sequence: the given one, or one drawn from the system."""
    def mirostat_mu(self, sequence: SequenceId) -> float | None:
        """Mirostat's state mu, in bits; None if the sequence has mirostat off."""
    def save(self, sequence: SequenceId) -> str:
        """Everything the later draws of a sequence depend on, as JSON."""
    def load(self, saved: str) -> SequenceId:
        """Adds a sequence that was saved, by this or by `Sampler.save`."""
    def runners(self, sequence: SequenceId, logits: Row, count: int, *, mask: Mask | None = None) -> list[Runner]:
        """The first tokens in the race of a sequence's next draw, at most `count`."""
    def guess(self, sequence: SequenceId, logits: Row, count: int, begun: int, *, mask: Mask | None = None) -> Guess:
        """Draws up to `count` guesses of a sequence's next token from a drafter's row."""
    def verify(
        self, sequence: SequenceId, draft: Draft, logits: Logits, *, verify: Verify = "exact", matcher: Matcher | None = None
    ) -> Verdict:
        """Verifies a draft: row 0 of `logits` is the target model's row after the text so far, row i + 1 the
        one after node i."""
    def __len__(self) -> int: ...
