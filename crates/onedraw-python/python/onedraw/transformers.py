"""Draws tokens for models of Hugging Face's transformers with onedraw.

`generate` writes texts with any causal model: one token at a time, by beam search, or with a smaller model
that guesses ahead. `OnedrawLogitsProcessor` draws inside transformers' own `model.generate`. Needs `pip
install onedraw[transformers]`.

>>> from transformers import AutoModelForCausalLM, AutoTokenizer  # doctest: +SKIP
>>> from onedraw.transformers import generate
>>> model, tokenizer = AutoModelForCausalLM.from_pretrained("gpt2"), AutoTokenizer.from_pretrained("gpt2")  # doctest: +SKIP
>>> generate(model, tokenizer, "Once upon a time", temperature=0.8, top_p=0.9, seed=7).text  # doctest: +SKIP

One seed gives one text if the model gives the same logits. Some models compute slightly different logits for
several positions or rows at once than for one alone, so that, rarely, another token is drawn.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from transformers import LogitsProcessor

from ._memory import Memory, common, on_cpu
from ._onedraw import (
    MAX_TOKENS,
    Batch,
    BeamSearch,
    Draft,
    ModelError,
    ParamError,
    Report,
    Rewind,
    RowError,
    Sampled,
    Sampler,
    SamplingParams,
    SequenceId,
    StopMatcher,
    Utf8Stream,
)
from ._pieces import Pieces

__all__ = ["Generated", "OnedrawLogitsProcessor", "generate"]

Params: TypeAlias = SamplingParams | Mapping[str, Any] | str | None
"""Parameters as every function takes them: an object, a dict, the name of a preset or nothing."""


@dataclass(frozen=True, repr=False)
class Generated:
    """A text that has ended."""

    text: str
    """The text, without the prompt."""
    tokens: tuple[int, ...]
    """Its tokens, with the one that ended it."""
    finish_reason: str | None
    """Why it ended: `eos`, `stop` or `length`; None if a beam search ended first."""
    sampled: tuple[Sampled, ...] = ()
    """The drawn tokens, with their logprobs if these were asked for. Empty after a beam search, which draws
    nothing."""
    score: float | None = None
    """The score that a beam search ordered it by; else None."""
    prompt_logprobs: tuple[Report | RowError | None, ...] | None = None
    """If `prompt_logprobs` is set, one entry per token of the prompt; None for the first, which nothing
    predicts."""

    @property
    def seed(self) -> int | None:
        """The seed that drew it; None if nothing was drawn."""
        return self.sampled[0].seed if self.sampled else None

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Generated({self.text!r}, {len(self.tokens)} tokens, finish_reason={self.finish_reason!r})"


def generate(
    model: Any,
    tokenizer: Any,
    prompt: str | Sequence[Any] | torch.Tensor,
    params: Params | list[Any] | tuple[Any, ...] = None,
    *,
    draft_model: Any = None,
    draft_tokens: int = 4,
    beams: int | None = None,
    length_penalty: float = 1.0,
    early_stopping: bool | Literal["never"] = False,
    stream: Callable[[str], object] | None = None,
    **parameters: Any,
) -> Generated | list[Generated]:
    """Writes what follows a prompt. Returns a `Generated`, or a list of them for several prompts or if `n` is
    above 1.

    `prompt` is a text or its tokens, or a list or tensor of several. Several prompts are read one after the
    other, so that no padding changes a logit; they may have a list of parameters. `tokenizer` may be None if
    prompts are tokens and no strings must be found; texts are empty then. Parameters are those of `Sampler`;
    with keyword arguments, a dict or the name of a preset, a text has up to 256 tokens. If they name no
    `eos_token_id`, that of the model is used, else that of the tokenizer. Other settings of the model are not
    used; `SamplingParams.import_settings(model.generation_config.to_json_string(), "huggingface")` reads
    them.

    With `beams` the `n` best texts are searched for by transformers' rules. With `draft_model` that model
    guesses up to `draft_tokens` tokens ahead with the noise of the text, and `model` verifies all of them in
    one pass; guesses do not change any token. `stream` is called with the pieces of a single text while it is
    written.

    A row that cannot be sampled raises its `RowError`.
    """
    prompts, is_one = _prompts(model, tokenizer, prompt)
    each = params if isinstance(params, (list, tuple)) else [params] * len(prompts)
    if len(each) != len(prompts):
        raise _wrong("params", f"are {len(each)} for {len(prompts)} prompts; give one for all, or one a prompt")
    read = [_with_defaults(model, tokenizer, one, parameters) for one in each]
    is_one = is_one and read[0].n == 1
    if beams is not None and draft_model is not None:
        raise _wrong("draft_model", "a beam search takes no guesses; leave out one of `beams` and `draft_model`")
    if draft_model is not None and _vocabulary(draft_model) != _vocabulary(model):
        raise ModelError(f"the draft model has {_vocabulary(draft_model)} tokens and the model {_vocabulary(model)}; both must have the same")
    if draft_tokens < 1:
        raise _wrong("draft_tokens", f"must be at least 1, not {draft_tokens}")
    if stream is not None and (beams is not None or not is_one):
        raise _wrong("stream", "takes the pieces of a single text, and a beam search has none before its end")
    pieces = Pieces(tokenizer)
    texts: list[Generated] = []
    with torch.inference_mode():
        for tokens, own in zip(prompts, read, strict=True):
            if beams is not None:
                search = BeamSearch(own.replace(prompt_token_ids=tokens), width=beams, style="hf", length_penalty=length_penalty, early_stopping=early_stopping)
                texts += _search(Memory(model), search, tokens, own, pieces)
            else:
                texts += _write(model, draft_model, draft_tokens, tokens, own, pieces, stream)
    return texts[0] if is_one else texts


def _wrong(field: str, message: str) -> ParamError:
    error = ParamError(f"{field}: {message}")
    error.field, error.message = field, message
    return error


def _vocabulary(model: Any) -> int | None:
    """The number of a model's tokens, where it says so."""
    config: Any = getattr(model, "config", None)
    size = getattr(config.get_text_config() if hasattr(config, "get_text_config") else config, "vocab_size", None)
    return size if isinstance(size, int) else None


def _prompts(model: Any, tokenizer: Any, prompt: Any) -> tuple[list[list[int]], bool]:
    """The tokens of each prompt, and whether there is just the one."""
    if isinstance(prompt, Mapping):
        # What a tokenizer makes of texts. Padding would count as text.
        if len(prompt["input_ids"]) > 1 and not torch.as_tensor(prompt.get("attention_mask", 1)).all():
            raise ModelError("the prompts are padded; give them as a list of texts or of lists of tokens")
        prompt = prompt["input_ids"]
    if isinstance(prompt, torch.Tensor):
        prompt = prompt.tolist()
    if tokenizer is None and (isinstance(prompt, str) or any(isinstance(one, str) for one in prompt)):
        raise ModelError("a text needs a tokenizer; give the prompt as tokens, or a tokenizer")
    is_several = not isinstance(prompt, str) and len(prompt) > 0 and hasattr(prompt[0], "__len__")
    prompts = [list(tokenizer.encode(one)) if isinstance(one, str) else [int(token) for token in one] for one in (prompt if is_several else [prompt])]
    if not all(prompts):
        raise ModelError("the prompt is empty, and the tokenizer has no token that begins a text")
    size = _vocabulary(model)
    for token in (token for one in prompts for token in one):
        if token < 0 or (size is not None and token >= size):
            raise ModelError(f"token {token} of the prompt is outside the vocabulary of {size}")
    return prompts, not is_several


def _read(params: Params, parameters: Mapping[str, Any]) -> SamplingParams:
    """Parameters as an object, with keyword arguments over them."""
    if isinstance(params, str):
        params = SamplingParams.preset(params)
    elif params is None or isinstance(params, Mapping):
        params = SamplingParams(**(params or {}))
    if not isinstance(params, SamplingParams):
        raise TypeError(f"params are SamplingParams, a dict, a preset's name or None, not an object of the type {type(params).__name__}")
    return params.replace(**parameters) if parameters else params


def _with_defaults(model: Any, tokenizer: Any, params: Params, parameters: Mapping[str, Any]) -> SamplingParams:
    """The parameters, with the defaults of a text of this model for what they do not set."""
    is_open = params is None or isinstance(params, (str, Mapping))
    given = params if isinstance(params, Mapping) else {}
    read = _read(params, {"max_tokens": MAX_TOKENS, **given, **parameters} if is_open else parameters)
    if tokenizer is None and (read.stop or read.banned_strings):
        raise _wrong("tokenizer", "without one there is no text in which `stop` and `banned_strings` could be found")
    for owner in (getattr(model, "generation_config", None), tokenizer):
        eos = getattr(owner, "eos_token_id", None)
        if not read.eos_token_id and eos is not None:
            read = read.replace(eos_token_id=eos)
    return read


class _Text:
    """A text that is being written: its tokens after those of the prompt, and the part of it that can be
    shown."""

    def __init__(self, tokens: list[int], params: SamplingParams, pieces: Pieces, stream: Callable[[str], object] | None = None) -> None:
        self.tokens, self.begin = list(tokens), len(tokens)
        self.given = len(params.output_token_ids)
        self.sampled: list[Sampled] = []
        self.finish_reason: str | None = None
        self.pieces, self.stream = pieces, stream
        self.matcher, self.characters = StopMatcher(params), Utf8Stream()
        self.shown = ""

    def draw(self, batch: Batch, sequence: SequenceId, sampled: Sampled) -> bool:
        """Adds a token that the sequence has accepted. Returns False if text was taken back because of a
        banned string."""
        self.sampled.append(sampled)
        rewind = self.push(sampled.token)
        if rewind is None:
            return True
        batch.take_back(sequence, rewind)
        del self.sampled[rewind.length - self.given :]
        del self.tokens[self.begin + len(self.sampled) :]
        return False

    def push(self, token: int) -> Rewind | None:
        """Adds a token. Returns what must be taken back because of a banned string, else None."""
        self.tokens.append(token)
        progress = self.matcher.push(token, self.pieces.last(self.tokens))
        self.finish_reason = progress.finish_reason
        self._show(self.characters.push(progress.text))
        if self.finish_reason is not None:
            self._show(self.characters.finish())
        return progress.rewind

    def end(self) -> str:
        """Ends the text from outside, if it has not ended. Returns all of it."""
        if self.finish_reason is None:
            self._show(self.characters.push(self.matcher.finish()) + self.characters.finish())
        return self.shown

    def _show(self, text: str) -> None:
        self.shown += text
        if self.stream is not None and text:
            self.stream(text)


def _write(
    model: Any, draft_model: Any, draft_tokens: int, prompt: list[int], params: SamplingParams, pieces: Pieces, stream: Callable[[str], object] | None
) -> list[Generated]:
    """The `n` texts after a prompt."""
    params = params.replace(prompt_token_ids=prompt)
    begin = prompt + params.output_token_ids
    batch, memory = Batch(), Memory(model)
    sequences = batch.add_all(params)
    texts = [_Text(begin, params, pieces, stream) for _ in sequences]
    reports = None
    if params.prompt_logprobs is not None:
        reports = tuple(Sampler(params).prompt_logprobs(memory.logits([prompt], len(prompt))[0]))
    if draft_model is not None:
        drafter = Memory(draft_model)
        for sequence, text in zip(sequences, texts, strict=True):
            _write_assisted(memory, drafter, draft_tokens, batch, sequence, text, params)
    elif params.banned_strings:
        # A text of which tokens are taken back has another length than the others, so each is written alone.
        for sequence, text in zip(sequences, texts, strict=True):
            _write_together(memory, batch, [sequence], [text])
    else:
        _write_together(memory, batch, sequences, texts)
    return [Generated(text.shown, tuple(text.tokens[text.begin :]), text.finish_reason, tuple(text.sampled), prompt_logprobs=reports) for text in texts]


def _write_together(memory: Memory, batch: Batch, sequences: Sequence[SequenceId], texts: Sequence[_Text]) -> None:
    """Writes texts together, one token per text and pass. All begin with the same tokens, which are read
    once."""
    rows = memory.logits([texts[0].tokens])[:, -1].expand(len(texts), -1)
    memory.follow([0] * len(texts))
    while True:
        for sequence, text, sampled in zip(sequences, texts, batch.sample(sequences, rows), strict=True):
            text.draw(batch, sequence, sampled)
        going = [place for place, text in enumerate(texts) if text.finish_reason is None]
        if not going:
            return
        if len(going) < len(texts):
            memory.follow(going)
            sequences, texts = [sequences[place] for place in going], [texts[place] for place in going]
        rows = memory.logits([text.tokens for text in texts])[:, -1]


def _write_assisted(memory: Memory, drafter: Memory, draft_tokens: int, batch: Batch, sequence: SequenceId, text: _Text, params: SamplingParams) -> None:
    """Writes a text with several tokens per pass, as many as the drafter guesses right."""
    ends = {*params.stop_token_ids, *params.eos_token_id}
    while text.finish_reason is None:
        # A fork has the noise of the text, so the drafter draws the same tokens as the target model if their
        # logits are similar.
        fork, guesses = batch.fork(sequence), list[int]()
        room = params.max_tokens - len(batch.output(sequence)) - 1
        while len(guesses) < min(draft_tokens, room) and not ends.intersection(guesses):
            try:
                guesses.append(batch.sample(fork, drafter.logits([text.tokens + guesses])[0, -1]).token)
            except RowError:
                break  # If the drafter cannot guess, the target model draws alone.
        batch.remove(fork)
        rows = memory.logits([text.tokens + guesses], len(guesses) + 1)[0]
        verdict = batch.verify(sequence, Draft.chain(guesses), rows, verify="exact")
        if verdict.error is not None and not verdict.sampled:
            raise verdict.error
        for sampled in verdict.sampled:
            batch.accept(sequence, sampled)
            if not text.draw(batch, sequence, sampled) or text.finish_reason is not None:
                break


def _search(memory: Memory, search: BeamSearch, prompt: list[int], params: SamplingParams, pieces: Pieces) -> Iterable[Generated]:
    """The best texts after a prompt."""
    if params.output_token_ids:
        raise ModelError("a search begins with the prompt: there can be no output yet")
    # The search itself handles ids and lengths; strings must be found in the text.
    has_strings = bool(params.stop or params.banned_strings)
    lines = [_Line(prompt, StopMatcher(params), pieces)] * len(search)

    def continuation(beam: int, token: int) -> str:
        return lines[beam].grown(token)[1]

    while True:
        rows = memory.logits([line.tokens for line in lines])[:, -1]
        expansion = search.step(rows, continuation=continuation if has_strings else None)
        if search.is_done:
            break
        memory.follow(expansion.beams.tolist())
        lines = [lines[beam].grown(token)[0] for beam, token in zip(expansion.beams.tolist(), expansion.tokens.tolist(), strict=True)]
    for found in search.finish():
        text = _Text(prompt, params, pieces)
        for token in found.tokens:
            text.push(token)
        yield Generated(text.end(), tuple(found.tokens), found.finish_reason, score=found.score)


@dataclass(frozen=True)
class _Line:
    """The tokens of the prompt and a beam, and the matcher of the text."""

    tokens: list[int]
    matcher: StopMatcher
    pieces: Pieces

    def grown(self, token: int) -> tuple[_Line, str]:
        """The line with one more token, and what that does to the text: the answer that the search takes."""
        line = _Line([*self.tokens, token], copy.copy(self.matcher), self.pieces)
        progress = line.matcher.push(token, self.pieces.last(line.tokens))
        if progress.rewind is not None:
            return line, "forbidden"
        return line, "ends" if progress.finish_reason == "stop" else "goes"


class OnedrawLogitsProcessor(LogitsProcessor):
    """Draws inside `model.generate(...,
    logits_processor=LogitsProcessorList([OnedrawLogitsProcessor(...)]))`.

    With `draw=True` onedraw draws: the scores of all other tokens are -inf, so transformers takes the drawn
    token, with `do_sample` on or off. With `draw=False` the scores are the logprobs of onedraw's chain, -inf
    for tokens that it removes, and transformers draws.

    Parameters are those of `Sampler`, or a list with one for each row. If there is one for all rows, row r is
    sequence r % n of the prompt r // n, so `n` must equal `num_return_sequences`. Rows of different prompts
    share the seed, and the text of a row does not depend on its place. transformers decides where a text
    ends: `max_tokens` and `stop` have no effect; `min_tokens` has one if `eos_token_id` is given.

    A new generation begins if `input_ids` does not continue the texts of the last call by one token; it is
    the prompt then. Otherwise the texts are continued. `reset` begins a new generation in any case. Padding
    before a prompt counts as part of it.
    """

    def __init__(self, params: Params | list[Any] | tuple[Any, ...] = None, *, draw: bool = True, **parameters: Any) -> None:
        self.params = [_read(one, parameters) for one in params] if isinstance(params, (list, tuple)) else _read(params, parameters)
        self.draw = draw
        self.reset()

    def __getstate__(self) -> dict[str, Any]:
        # A copy begins its own generation.
        return {"params": self.params, "draw": self.draw}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.params, self.draw = state["params"], state["draw"]
        self.reset()

    def reset(self) -> None:
        """Forgets the generation, so that the next call begins a new one."""
        self.batch = Batch()
        self.sequences: list[SequenceId] = []
        self.prompt = 0
        self.seen: list[list[int]] = []
        self.drawn: list[Sampled] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """The scores that transformers takes or draws from."""
        rows = input_ids.tolist()
        if not rows:
            return scores
        if self._continues(rows):
            for place, row in enumerate(rows):
                self._follow(place, row[self.prompt :])
        else:
            self._begin(rows)
        self.seen = rows
        logits = on_cpu(scores)
        answer = torch.full_like(scores, -torch.inf)
        if self.draw:
            # The draw does not change the history: the token comes back in the next `input_ids`, unless
            # transformers chose another one.
            self.drawn = list(self.batch.peek(self.sequences, logits))
            answer[torch.arange(len(rows)), [sampled.token for sampled in self.drawn]] = 0.0
            return answer
        for place, distribution in enumerate(self.batch.distributions(self.sequences, logits)):
            tokens, logprobs = (torch.from_numpy(array).to(scores.device) for array in (distribution.tokens, distribution.logprobs))
            answer[place, tokens] = logprobs.to(scores.dtype)
        return answer

    def _continues(self, rows: list[list[int]]) -> bool:
        """Whether these are the texts of the last call with one more token. Beams may have changed places,
        and assisted generation may have gone back to try other tokens."""
        if len(rows) != len(self.sequences) or len(rows[0]) <= self.prompt:
            return False
        length = len(rows[0]) - 1
        before = {tuple(seen[:length]) for seen in self.seen}
        return all(tuple(row[:-1]) in before and row[: self.prompt] == seen[: self.prompt] for row, seen in zip(rows, self.seen, strict=True))

    def _begin(self, rows: list[list[int]]) -> None:
        self.reset()
        self.prompt = len(rows[0])
        if isinstance(self.params, list):
            if len(self.params) != len(rows):
                raise _wrong("params", f"are {len(self.params)} for {len(rows)} rows; give one for all, or one a row")
            self.sequences = [self.batch.add(params, prompt_token_ids=row, output_token_ids=[]) for params, row in zip(self.params, rows, strict=True)]
            return
        count = self.params.n
        if len(rows) % count:
            raise _wrong("n", f"is {count}, which does not divide the {len(rows)} rows; give `num_return_sequences={count}`")
        seed = Sampler(self.params).seed
        for row in rows[::count]:
            self.sequences += self.batch.add_all(self.params, seed=seed, prompt_token_ids=row, output_token_ids=[])

    def _follow(self, place: int, output: list[int]) -> None:
        """Makes the history of a sequence equal to what transformers wrote in its row."""
        sequence = self.sequences[place]
        known = self.batch.output(sequence)
        kept = common(known, output)
        if kept < len(known):
            self.batch.rewind(sequence, kept)
        elif self.drawn and kept < len(output) and self.drawn[place].token == output[kept]:
            # Accepting our own draw also updates mirostat's state.
            self.batch.accept(sequence, self.drawn[place])
            kept += 1
        for token in output[kept:]:
            self.batch.accept(sequence, token)
