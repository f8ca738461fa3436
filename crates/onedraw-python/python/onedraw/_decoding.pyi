"""What the compiled module has for decode loops, and the models' texts, for type checkers alone: at run time all of it is in `_onedraw`."""

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
    """Text to be taken back, for a banned string: what `Sampler.take_back` takes."""
    def __new__(cls, length: int, token: Token, phrase: int = 0) -> Self: ...
    @property
    def length(self) -> int: """The tokens of the output that stay."""
    @property
    def token(self) -> int: """The token that stood after them, which is banned there."""
    @property
    def phrase(self) -> int: """Which of `banned_strings` it was."""
    def __eq__(self, other: object, /) -> bool: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]

@final
class Progress:
    """What a token did to a text."""
    @property
    def text(self) -> bytes: """The bytes to show now, after those shown before; none of them is ever taken back."""
    @property
    def finish_reason(self) -> FinishReason | None: """Why the text has ended: `eos`, `stop` or `length`; None while it goes on."""
    @property
    def stop_token(self) -> int | None: """The token that ended the text, if one did; else None."""
    @property
    def stop_string(self) -> int | None: """Which of the `stop` strings ended the text, by number, if one did; else None."""
    @property
    def rewind(self) -> Rewind | None:
        """Set if a banned string was completed: the text goes back, and the sampler with it (`take_back`)."""

@final
class StopMatcher:
    """Finds where a text ends, token by token: EOS, stop ids, stop strings across tokens, lengths; and the banned strings."""
    def __new__(cls, params: Params = None, **parameters: Unpack[Parameters]) -> Self: ...
    def push(self, token: Token, text: str | bytes) -> Progress: """Takes a token and the text that it stands for, bytes or a string."""
    def finish(self) -> bytes: """Ends the text from outside: the bytes that were held back because they might have become a stop string."""
    @property
    def held_back(self) -> bytes: """The bytes that are held back."""
    def __copy__(self) -> StopMatcher: ...
    def __deepcopy__(self, _memo: object, /) -> StopMatcher: ...

@final
class Utf8Stream:
    """Makes text of bytes that come in pieces: a character cut in two waits for its other half."""
    def __new__(cls) -> Self: ...
    def push(self, bytes: bytes) -> str: """Takes the next bytes and returns the text they complete."""
    def finish(self) -> str: """Ends the stream: a character that never came whole is U+FFFD."""

@final
class Hypothesis:
    """A text that was found."""
    @property
    def tokens(self) -> list[int]: """Its tokens after the prompt, with the one that ended it."""
    @property
    def score(self) -> float: """What it was ranked by."""
    @property
    def logprob(self) -> float: """The sum of the logprobs of its tokens."""
    @property
    def inclusion(self) -> float | None: """Of a text drawn without replacement: the probability that it is among the draws; else None."""
    @property
    def finish_reason(self) -> FinishReason | None: """Why it ended: `eos`, `stop` or `length`; None if the search ended first."""
    @property
    def text(self) -> str | None: """The text, where there is a tokenizer; else None."""

@final
class Beam:
    """A text that goes on."""
    @property
    def tokens(self) -> list[int]: """The tokens that it has written."""
    @property
    def logprob(self) -> float: """The sum of their logprobs."""
    @property
    def score(self) -> float: """What it is ranked by."""

@final
class Expansion:
    """What one step did: the beams of the next step are `beams[i]` of this one, with `tokens[i]`. Caches follow `beams`."""
    @property
    def beams(self) -> NDArray[np.int64]: """Where each beam of the next step comes from, int64."""
    @property
    def tokens(self) -> NDArray[np.int64]: """The token it goes on with, int64."""
    @property
    def candidates(self) -> list[tuple[int, int, float, float, Literal["kept", "ended", "dropped"]]]:
        """The continuations that were looked at, the best first: (beam, token, logprob, score, what became of it)."""
    def __len__(self) -> int: ...

@final
class BeamSearch:
    """Beam search without a model: the caller computes the logits after each of `beams` and hands them to `step`."""
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
    def beams(self) -> list[Beam]: """The texts that go on, in the order in which `step` wants their rows."""
    @property
    def is_done(self) -> bool: """Whether the search has ended."""
    def step(self, logits: Logits, *, masks: Masks | None = None, continuation: Continuation | None = None) -> Expansion:
        """One token more for every beam. Row i of `logits` is that after beam i."""
    def finish(self) -> list[Hypothesis]: """The best texts, `n` of them (stochastic: all), the best first. The search is over then."""
    def __len__(self) -> int: ...

@final
class Runner:
    """A token that finishes early in the race of a draw."""
    @property
    def token(self) -> int: """The token."""
    @property
    def behind(self) -> float: """How far behind the winner, in units of the logarithm of time; 0 for the winner."""

@final
class Guess:
    """Guesses that were drawn, with the law that they come from: what `Draft.grow` takes."""
    @property
    def tokens(self) -> list[int]: """The tokens."""
    def probability(self, token: Token) -> float | None:
        """The probability that the law gives a token; None if the guesses were not drawn but given."""

@final
class Draft:
    """What a drafter guesses: a tree of tokens after a text, with the laws they were drawn from."""
    def __new__(cls) -> Self: ...
    @staticmethod
    def chain(tokens: Tokens) -> Draft:
        """Guesses that come one after the other, and were not drawn: an n-gram's, or a drafter's own best tokens."""
    def grow(self, parent: int | None, guesses: Guess | Tokens, law: Distribution | None = None) -> list[int]:
        """Adds all guesses after a node, or after the text (None); their places."""
    @property
    def tokens(self) -> list[int]: """The tokens, parents before their children."""
    @property
    def parents(self) -> list[int | None]: """What each follows: the place of a token before it, or None for the text."""
    def __len__(self) -> int: ...

@final
class Verdict:
    """How far guesses hold."""
    @property
    def path(self) -> list[int]: """The nodes that hold, from the root."""
    @property
    def sampled(self) -> list[Sampled]:
        """Their tokens as the target reports them, and the one after them. Fewer only where there is an error."""
    @property
    def tokens(self) -> list[int]: """The ids of these."""
    @property
    def error(self) -> RowError | None: """Why no token could be drawn after those; else None."""

@final
class Vocabulary:
    """The tokens of a model, ready for grammars: made once for a tokenizer."""
    def __new__(cls, tokens: Iterable[str | bytes], *, eos: Tokens, special: Tokens | None = None) -> Self: ...
    @property
    def eos(self) -> list[int]: """The tokens that end a text."""
    def __len__(self) -> int: ...

@final
class Grammar:
    """What a text must keep to, compiled for a vocabulary; `start` begins a text."""
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
        """Text of a context-free grammar in the Lark dialect of llguidance; the rule `start` is the whole text."""
    def start(self) -> Matcher: """A text that is yet to be written."""

@final
class Matcher:
    """A text that keeps to a grammar: which tokens may come next, and which must."""
    def mask(self) -> NDArray[np.uint32]: """The tokens that may come next: 32 a word, lowest bit first, uint32."""
    def forced(self) -> list[int]: """The tokens that must come next, where the grammar leaves no choice; they need no draw."""
    def accept(self, token: Token) -> None: """Goes on with a token. One that does not fit raises `ConstraintError` and changes nothing."""
    def rollback(self, tokens: int) -> None: """Takes the last `tokens` tokens back."""
    @property
    def tokens(self) -> list[int]: """The tokens that were accepted."""
    def fork(self) -> Matcher: """One in the same place, which goes its own way."""
    def __copy__(self) -> Matcher: ...
    def __deepcopy__(self, _memo: object, /) -> Matcher: ...

@final
class Contrast:
    """How two rows of logits become one: an expert's against an amateur's, a prompt's against another's."""
    @staticmethod
    def li(alpha: float = 0.1, amateur_temperature: float = 0.5) -> Contrast:
        """The expert less the amateur at a temperature of its own, over the tokens at least `alpha` times as likely as the expert's best."""
    @staticmethod
    def obrien(alpha: float = 0.1, beta: float = 0.5) -> Contrast: """The expert, exaggerated by what sets it apart from the amateur."""
    @staticmethod
    def guidance(scale: float) -> Contrast:
        """Away from what follows another prompt, over all tokens: 1 is the prompt's own row, 0 the other's."""
    @staticmethod
    def dola(relative_top: float = 0.1) -> Contrast:
        """The last layer less an earlier one, among the tokens at least `relative_top` times as likely as the best."""
    def apply(self, expert: Row, amateur: Row) -> NDArray[np.float32]: """The row of both, float32."""

@final
class Tokenizer:
    """A tokenizer.json: text to tokens, and tokens to bytes."""
    @staticmethod
    def open(folder: Path) -> Tokenizer: """Reads tokenizer.json of a model's folder."""
    @staticmethod
    def from_json(json: str) -> Tokenizer: """From the text of a tokenizer.json."""
    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """The tokens of a text, with those that the model expects around it; without them where `special` is False."""
    def bytes(self, token: Token) -> builtins.bytes: """The bytes that a token stands for in running text; empty for special tokens."""
    def text(self, tokens: Tokens) -> str: """The text of tokens: their bytes, joined."""
    def piece(self, token: Token) -> str: """A token to look at: its text, or how it is written if it is special."""
    def id(self, content: str) -> int | None: """The token with this content, as tokenizer.json writes it; None if there is none."""
    def is_special(self, token: Token) -> bool: """Whether a token is special: a mark, not text."""
    def vocabulary(self, eos: Tokens, size: int | None = None) -> Vocabulary:
        """The tokens for grammars; `size` is the number of the model's logits, if that is more than the tokenizer has tokens."""
    def __len__(self) -> int: ...

@final
class RequestId:
    """Names a request of a `Generator`: a prompt, and the `n` texts that follow it."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Event:
    """What one token of one text did."""
    @property
    def request(self) -> RequestId: """Whose."""
    @property
    def sample(self) -> int: """Which of its `n` texts."""
    @property
    def sampled(self) -> Sampled | None: """The token; None if none could be drawn."""
    @property
    def taken_back(self) -> int: """How many of the last tokens were taken back, this one among them, for a banned phrase."""
    @property
    def text(self) -> str: """The text to show now, after that shown before: whole characters, and never any that is taken back later."""
    @property
    def finish_reason(self) -> FinishReason | None: """Why the text has ended: `eos`, `stop` or `length`; None while it goes on."""
    @property
    def error(self) -> RowError | None: """Why no token could be drawn: the text has ended too; else None."""
    @property
    def is_last(self) -> bool: """Whether nothing of this text follows."""

@final
class Generated:
    """A text that has ended."""
    @property
    def text(self) -> str: """The text, without the prompt."""
    @property
    def tokens(self) -> list[int]: """Its tokens."""
    @property
    def sampled(self) -> list[Sampled]: """The same as `Sampled`s, with their logprobs where these were asked for."""
    @property
    def finish_reason(self) -> FinishReason | None: """Why it ended: `eos`, `stop` or `length`; None if no token could be drawn."""
    @property
    def sample(self) -> int: """Which of the `n` texts of its prompt it is."""
    @property
    def seed(self) -> int | None: """The seed that drew it; None if it has no token."""
    @property
    def error(self) -> RowError | None: """Why no token could be drawn; else None."""
    @property
    def prompt_logprobs(self) -> list[Report | RowError | None] | None:
        """Where `prompt_logprobs` is set, an entry for each token of the prompt: None for the first, a `Report`, or the `RowError` of its row."""

@final
class Stream:
    """The events of one request, as they come."""
    def __iter__(self) -> Self: ...
    def __next__(self) -> Event: ...

@final
class Generator:
    """Writes texts with a model: the small one of stories that is part of the package, or that of a Hugging Face folder."""
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
    ) -> Self: ...
    @property
    def tokenizer(self) -> Tokenizer: """The model's tokens."""
    @property
    def vocabulary_size(self) -> int: """The number of logits in a row."""
    @property
    def context(self) -> int: """The most positions of a text."""
    @property
    def eos_token_ids(self) -> list[int]: """The tokens that end a text."""
    def vocabulary(self) -> Vocabulary: """The model's tokens for grammars."""
    def params(self, params: Params = None, **parameters: Unpack[Parameters]) -> SamplingParams:
        """What a text with these arguments is written with: the parameters, with the model's own settings under them."""
    @overload
    def generate(
        self, prompt: Prompts, params: EachParams = None, *, grammar: Grammar | Matcher | None = None, **parameters: Unpack[Parameters]
    ) -> list[Generated]: """Writes what follows a prompt: a `Generated`, or for several prompts or where `n` is above 1 a list of them."""
    @overload
    def generate(
        self, prompt: Prompt, params: Params = None, *, grammar: Grammar | Matcher | None = None, **parameters: Unpack[Parameters]
    ) -> Generated | list[Generated]: ...
    def stream(
        self, prompt: Prompt, params: Params = None, *, grammar: Grammar | Matcher | None = None, **parameters: Unpack[Parameters]
    ) -> Stream: """Writes what follows a prompt, an `Event` a token, as it comes."""
    def add(
        self, prompt: Prompt, params: Params = None, *, grammar: Grammar | Matcher | None = None, **parameters: Unpack[Parameters]
    ) -> RequestId: """Takes a request beside those on their way; `step` writes on."""
    def step(self) -> list[Event]: """One pass for the requests of `add`."""
    def cancel(self, request: RequestId) -> list[Event]:
        """Ends a request of `add`; the last events of its texts, with what was held back."""
    @property
    def is_done(self) -> bool: """Whether no request of `add` is on its way."""
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
    ) -> list[Hypothesis]: """The best texts after a prompt by beam search, `n` of them, with their text."""
    def logits(self, prompt: Prompt) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
        """The logits after every token of a prompt, [positions, V], float32: row i predicts token i + 1, the last one what follows."""
