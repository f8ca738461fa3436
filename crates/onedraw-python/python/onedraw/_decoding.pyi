"""The classes of the compiled module for decode loops and for texts of models. This file is for type checkers
only: at run time all of it is in `_onedraw`."""

import builtins
from collections.abc import Iterable
from typing import Any, ClassVar, Literal, final, overload

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self, Unpack

from ._onedraw import Distribution, Report, RowError, Sampled, SamplingParams
from ._types import (
    BeamStyle, Continuation, EachParams, EarlyStopping, FinishReason, Kernel, Logits, Masks, Parameters, Params, Path,
    Prompt, Prompts, Row, Strings, Token, Tokens, Verify,
)

@final
class Rewind:
    """Text to take back because of a banned string, for `Sampler.take_back`."""
    def __new__(cls, length: int, token: Token, phrase: int = 0) -> Self: ...
    @property
    def length(self) -> int: """The tokens of the output that stay."""
    @property
    def token(self) -> int: """The token after them, which is banned at that position."""
    @property
    def phrase(self) -> int: """Which of `banned_strings` was found."""
    def __eq__(self, other: object, /) -> bool: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]

@final
class Progress:
    """What a token changed in a text."""
    @property
    def text(self) -> bytes:
        """The bytes to show now, after those shown before; none of them is ever taken back."""
    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the text has ended: `eos`, `stop` or `length`; None while it continues."""
    @property
    def stop_token(self) -> int | None: """The token that ended the text, if one did; else None."""
    @property
    def stop_string(self) -> int | None:
        """Which of the `stop` strings ended the text, by number, if one did; else None."""
    @property
    def rewind(self) -> Rewind | None:
        """Set if a banned string was completed: the text and the sampler must go back (`take_back`)."""

@final
class StopMatcher:
    """Finds where a text ends, token by token: EOS, stop ids, stop strings across tokens, lengths; and the
    banned strings."""
    def __new__(cls, params: Params = None, **parameters: Unpack[Parameters]) -> Self: ...
    def push(self, token: Token, text: str | bytes) -> Progress:
        """Takes a token and its text, bytes or a string."""
    def finish(self) -> bytes:
        """Ends the text from outside. Returns the bytes that were held back because they might have become a
        stop string."""
    @property
    def held_back(self) -> bytes: """The bytes that are held back."""
    def __copy__(self) -> StopMatcher: ...
    def __deepcopy__(self, _memo: object, /) -> StopMatcher: ...

@final
class Utf8Stream:
    """Makes text from bytes that come in pieces. The first bytes of a character wait for the rest."""
    def __new__(cls) -> Self: ...
    def push(self, bytes: bytes) -> str: """Takes the next bytes and returns the text they complete."""
    def finish(self) -> str: """Ends the stream. A character that is not complete becomes U+FFFD."""

@final
class Hypothesis:
    """A text that was found."""
    @property
    def tokens(self) -> list[int]: """Its tokens after the prompt, with the one that ended it."""
    @property
    def score(self) -> float: """The score that it was ordered by."""
    @property
    def logprob(self) -> float: """The sum of the logprobs of its tokens."""
    @property
    def inclusion(self) -> float | None:
        """For a text drawn without replacement, the probability that it is among the draws; else None."""
    @property
    def finish_reason(self) -> FinishReason | None:
        """Why it ended: `eos`, `stop` or `length`; None if the search ended first."""
    @property
    def text(self) -> str | None: """The text, if there is a tokenizer; else None."""

@final
class Beam:
    """A text that has not ended."""
    @property
    def tokens(self) -> list[int]: """The tokens that it has written."""
    @property
    def logprob(self) -> float: """The sum of their logprobs."""
    @property
    def score(self) -> float: """The score that it is ordered by."""

@final
class Expansion:
    """What one step did: beam i of the next step is beam `beams[i]` of this step with the token `tokens[i]`.
    Caches must be reordered by `beams`."""
    @property
    def beams(self) -> NDArray[np.int64]: """Where each beam of the next step comes from, int64."""
    @property
    def tokens(self) -> NDArray[np.int64]: """The token that continues it, int64."""
    @property
    def candidates(self) -> list[tuple[int, int, float, float, Literal["kept", "ended", "cut", "dropped"]]]:
        """The continuations that were considered, the best first: (beam, token, logprob, score, outcome). `ended` is an
        end by an EOS id or a stop, `cut` one by `max_tokens`."""
    def __len__(self) -> int: ...

@final
class BeamSearch:
    """Beam search without a model: the caller computes the logits after each of `beams` and hands them to
    `step`."""
    def __new__(
        cls,
        params: Params = None,
        *,
        width: int = 4,
        style: BeamStyle = "hf",
        length_penalty: float = 1.0,
        early_stopping: EarlyStopping = None,
        groups: int = 1,
        diversity_penalty: float = 0.0,
        stochastic: bool = False,
        **parameters: Unpack[Parameters],
    ) -> Self: ...
    @property
    def beams(self) -> list[Beam]:
        """The texts that have not ended, in the order in which `step` takes their rows."""
    @property
    def is_done(self) -> bool: """Whether the search has ended."""
    def step(self, logits: Logits, *, masks: Masks | None = None, continuation: Continuation | None = None) -> Expansion:
        """Adds one token to every beam. Row i of `logits` is the row after beam i."""
    def finish(self) -> list[Hypothesis]:
        """The `n` best texts (stochastic: all), the best first. This ends the search."""
    def __len__(self) -> int: ...

@final
class Runner:
    """A token that finishes early in the race of a draw."""
    @property
    def token(self) -> int: """The token."""
    @property
    def behind(self) -> float:
        """How far it is behind the winner, in the logarithm of the time; 0 for the winner."""

@final
class Guess:
    """Drawn guesses, with the distribution that they come from, for `Draft.grow`."""
    @property
    def tokens(self) -> list[int]: """The tokens."""
    def probability(self, token: Token) -> float | None:
        """The probability of a token in the distribution of the guesses; None if they were not drawn but
        given."""

@final
class Draft:
    """The guesses of a drafter: a tree of tokens after a text, with the distributions they were drawn
    from."""
    def __new__(cls) -> Self: ...
    @staticmethod
    def chain(tokens: Tokens) -> Draft:
        """Guesses that follow one another and were not drawn, such as those of an n-gram, or a drafter's best
        tokens."""
    def grow(self, parent: int | None, guesses: Guess | Tokens, law: Distribution | None = None) -> list[int]:
        """Adds all guesses after a node, or after the text (None). Returns their places."""
    @property
    def tokens(self) -> list[int]: """The tokens, parents before their children."""
    @property
    def parents(self) -> list[int | None]:
        """The parent of each token: the place of a token before it, or None for the text."""
    def __len__(self) -> int: ...

@final
class Verdict:
    """How many of the guesses were right."""
    @property
    def path(self) -> list[int]: """The nodes whose guesses were right, from the root."""
    @property
    def sampled(self) -> list[Sampled]:
        """Their tokens as the target model reports them, and the token after them. There are fewer only if
        there is an error."""
    @property
    def tokens(self) -> list[int]: """The ids of these tokens."""
    @property
    def error(self) -> RowError | None: """Why no token could be drawn after those; else None."""

@final
class Vocabulary:
    """The tokens of a model in the form that grammars take, made once for a tokenizer."""
    def __new__(cls, tokens: Iterable[str | bytes], *, eos: Tokens, special: Tokens | None = None) -> Self: ...
    @property
    def eos(self) -> list[int]: """The tokens that end a text."""
    def __len__(self) -> int: ...

@final
class Grammar:
    """What a text must match, compiled for a vocabulary; `start` begins a text."""
    @staticmethod
    def json_schema(vocabulary: Vocabulary, schema: str | bool | dict[str, Any], *, whitespace: bool = False) -> Grammar:
        """JSON that a schema allows; without white space between the parts unless `whitespace` is set."""
    @staticmethod
    def regex(vocabulary: Vocabulary, expression: str) -> Grammar:
        """Text that a regular expression matches from its first character to its last."""
    @staticmethod
    def choices(vocabulary: Vocabulary, choices: Strings) -> Grammar: """One of these texts."""
    @staticmethod
    def lark(vocabulary: Vocabulary, grammar: str) -> Grammar:
        """Text of a context-free grammar in the Lark dialect of llguidance; the rule `start` is the whole
        text."""
    def start(self) -> Matcher: """A matcher for a text that has not begun."""

@final
class Matcher:
    """A text that follows a grammar: which tokens may come next, and which must."""
    def mask(self) -> NDArray[np.uint32]:
        """The tokens that may come next, as uint32 words: 32 tokens per word, lowest bit first."""
    def forced(self) -> list[int]:
        """The tokens that must come next because the grammar leaves no choice; they need no draw."""
    def accept(self, token: Token) -> None:
        """Adds a token to the text. A token that does not fit raises `ConstraintError` and changes
        nothing."""
    def rollback(self, tokens: int) -> None: """Takes the last `tokens` tokens back."""
    @property
    def tokens(self) -> list[int]: """The tokens that were accepted."""
    def fork(self) -> Matcher: """An independent copy at the same place."""
    def __copy__(self) -> Matcher: ...
    def __deepcopy__(self, _memo: object, /) -> Matcher: ...

@final
class Contrast:
    """How two rows of logits become one: those of an expert and an amateur, or those after two prompts."""
    @staticmethod
    def li(alpha: float = 0.1, amateur_temperature: float = 0.5) -> Contrast:
        """The expert's logits minus those of the amateur at its own temperature, among the tokens at least
        `alpha` times as likely as the expert's best."""
    @staticmethod
    def obrien(alpha: float = 0.1, beta: float = 0.5) -> Contrast:
        """The expert's logits, moved further away from those of the amateur."""
    @staticmethod
    def guidance(scale: float) -> Contrast:
        """Moves the logits away from those after another prompt, over all tokens: 1 gives the row of the
        prompt, 0 that of the other one."""
    @staticmethod
    def dola(relative_top: float = 0.1) -> Contrast:
        """The logits of the last layer minus those of an earlier one, among the tokens at least
        `relative_top` times as likely as the best."""
    def apply(self, expert: Row, amateur: Row) -> NDArray[np.float32]: """The combined row, float32."""

@final
class Tokenizer:
    """A tokenizer.json: text to tokens, and tokens to bytes."""
    @staticmethod
    def open(folder: Path) -> Tokenizer: """Reads tokenizer.json of a model's folder."""
    @staticmethod
    def from_json(json: str) -> Tokenizer: """Reads the text of a tokenizer.json."""
    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """The tokens of a text, with the special tokens that the model expects around it, unless `special` is
        False."""
    def bytes(self, token: Token) -> builtins.bytes:
        """The bytes of a token in a text; empty for special tokens."""
    def text(self, tokens: Tokens) -> str: """The text of tokens: their bytes, joined together."""
    def piece(self, token: Token) -> str:
        """A token in readable form: its text, or its name if it is special."""
    def id(self, content: str) -> int | None:
        """The token that tokenizer.json writes like this; None if there is none."""
    def is_special(self, token: Token) -> bool:
        """Whether a token is special, which means that it stands for no text."""
    def vocabulary(self, eos: Tokens, size: int | None = None) -> Vocabulary:
        """The tokens in the form that grammars take. `size` is the number of the model's logits, if there are
        more than tokens."""
    def __len__(self) -> int: ...

@final
class RequestId:
    """Names a request of a `Generator`: a prompt, and the `n` texts that follow it."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Event:
    """What one token changed in one text."""
    @property
    def request(self) -> RequestId: """The request that it belongs to."""
    @property
    def sample(self) -> int: """Which of the `n` texts of the request it is."""
    @property
    def sampled(self) -> Sampled | None: """The token; None if none could be drawn."""
    @property
    def taken_back(self) -> int:
        """How many of the last tokens were taken back because of a banned phrase, including this one."""
    @property
    def text(self) -> str:
        """The text to show now, after the text shown before. It has only whole characters, and none is taken
        back later."""
    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the text has ended: `eos`, `stop` or `length`; None while it continues."""
    @property
    def error(self) -> RowError | None:
        """The error if no token could be drawn, which also ends the text; else None."""
    @property
    def is_last(self) -> bool: """Whether this is the last event of the text."""

@final
class Generated:
    """A text that has ended."""
    @property
    def text(self) -> str: """The text, without the prompt."""
    @property
    def tokens(self) -> list[int]: """Its tokens."""
    @property
    def sampled(self) -> list[Sampled]:
        """The tokens as `Sampled`s, with their logprobs if these were asked for."""
    @property
    def finish_reason(self) -> FinishReason | None:
        """Why it ended: `eos`, `stop` or `length`; None if no token could be drawn."""
    @property
    def sample(self) -> int: """Which of the `n` texts of its prompt it is."""
    @property
    def seed(self) -> int | None: """The seed that drew it; None if it has no token."""
    @property
    def error(self) -> RowError | None: """Why no token could be drawn; else None."""
    @property
    def prompt_logprobs(self) -> list[Report | RowError | None] | None:
        """If `prompt_logprobs` is set, one entry per token of the prompt: None for the first, a `Report`, or
        the `RowError` of its row."""

@final
class Stream:
    """The events of one request, while they happen."""
    def __iter__(self) -> Self: ...
    def __next__(self) -> Event: ...

@final
class Generator:
    """Writes texts with a model: the small model of stories that is part of the package, or one in a Hugging
    Face folder."""
    def __new__(
        cls,
        folder: Path | None = None,
        *,
        threads: int = 0,
        kernel: Kernel = "auto",
        draft: int | Path | None = None,
        verify: Verify = "exact",
        depth: int | None = None,
        width: int | None = None,
        trace: Path | None = None,
    ) -> Self: ...
    @property
    def tokenizer(self) -> Tokenizer: """The model's tokens."""
    @property
    def vocabulary_size(self) -> int: """The number of logits in a row."""
    @property
    def context(self) -> int: """The most tokens of prompt and text together."""
    @property
    def eos_token_ids(self) -> list[int]: """The tokens that end a text."""
    def vocabulary(self) -> Vocabulary: """The model's tokens in the form that grammars take."""
    def params(self, params: Params = None, **parameters: Unpack[Parameters]) -> SamplingParams:
        """The parameters that a text with these arguments is written with. What they do not set comes from
        the model's own settings."""
    @overload
    def generate(
        self, prompt: Prompts, params: EachParams = None, *, grammar: Grammar | Matcher | None = None, **parameters: Unpack[Parameters]
    ) -> list[Generated]:
        """Writes what follows a prompt. Returns a `Generated`, or a list of them for several prompts or if
        `n` is above 1."""
    @overload
    def generate(
        self, prompt: Prompt, params: Params = None, *, grammar: Grammar | Matcher | None = None, **parameters: Unpack[Parameters]
    ) -> Generated | list[Generated]: ...
    def stream(
        self, prompt: Prompt, params: Params = None, *, grammar: Grammar | Matcher | None = None, **parameters: Unpack[Parameters]
    ) -> Stream: """Writes what follows a prompt, one `Event` per token, while it is written."""
    def add(
        self, prompt: Prompt, params: Params = None, *, grammar: Grammar | Matcher | None = None, **parameters: Unpack[Parameters]
    ) -> RequestId: """Adds a request beside those that are running; `step` continues all of them."""
    def step(self) -> list[Event]: """Makes one pass for the requests of `add`."""
    def cancel(self, request: RequestId) -> list[Event]:
        """Ends a request of `add`. Returns the last events of its texts, with the text that was held back."""
    @property
    def is_done(self) -> bool: """Whether no request of `add` is running."""
    def beams(
        self,
        prompt: Prompt,
        params: Params = None,
        *,
        width: int = 4,
        style: BeamStyle = "hf",
        length_penalty: float = 1.0,
        early_stopping: EarlyStopping = None,
        groups: int = 1,
        diversity_penalty: float = 0.0,
        stochastic: bool = False,
        grammar: Grammar | Matcher | None = None,
        **parameters: Unpack[Parameters],
    ) -> list[Hypothesis]: """The `n` best texts after a prompt, found by beam search, with their text."""
    def logits(self, prompt: Prompt) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
        """The logits after every token of a prompt, [positions, V], float32: row i predicts token i + 1, and
        the last row predicts what follows."""
