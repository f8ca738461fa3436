"""The public API as a typed program uses it. `test_types.py` has mypy read it and runs it; what a value is said to be, it is."""

import copy
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import assert_type

import onedraw
from onedraw import presets

FinishReason = Literal["eos", "stop", "length"]

row: NDArray[np.float32] = np.array([1.5, 0.2, 3.1, -4.0], dtype=np.float32)
rows: NDArray[np.float32] = np.stack([row, row])
numbers = [1.5, 0.2, 3.1, -4.0]


class Tensor:
    """As another library's: all that is known of it is `__dlpack__`."""

    def __dlpack__(self, **arguments: Any) -> Any:
        return row.__dlpack__(**arguments)

    def __dlpack_device__(self) -> tuple[int, int]:
        return row.__dlpack_device__()


def single_calls() -> None:
    drawn = onedraw.sample(row, temperature=0.8, top_p=0.9, seed=42)
    assert_type(drawn, onedraw.Sampled | onedraw.Samples)
    assert isinstance(drawn, onedraw.Sampled)
    assert_type(drawn.token, int)
    assert_type(drawn.logprob, float | None)
    assert_type(drawn.logprobs, list[onedraw.TokenLogprob])
    assert_type(numbers[drawn], float)
    assert_type(int(drawn), int)
    assert drawn == onedraw.Sampled.from_json(drawn.to_json()) and drawn.to_dict()["token"] == drawn.token
    assert onedraw.sample(Tensor(), "deterministic") is not None
    assert onedraw.sample(numbers, {"temperature": 0.5}, mask=[True, True, False, False]) is not None

    samples = onedraw.sample([row, row], ["creative", None], seed=1, logprobs=2, mask=[None, row > 0])
    assert_type(samples, onedraw.Samples)
    assert_type(samples.tokens, NDArray[np.int64])
    assert_type(samples.probabilities, NDArray[np.float64] | None)
    assert_type(samples.ranks, NDArray[np.int64] | None)
    assert_type(samples[0], onedraw.Sampled)
    assert_type(samples[:1], onedraw.Samples)
    assert_type([sampled.token for sampled in samples], list[int])
    assert len(samples) == 2

    kept = onedraw.distribution(numbers, top_k=2)
    assert_type(kept, onedraw.Distribution)
    assert_type(kept.tokens, NDArray[np.int64])
    assert_type(kept.dense(4), NDArray[np.float64])
    assert len(kept.logprobs) == len(kept)
    assert_type(onedraw.distribution([row, row]), list[onedraw.Distribution])
    assert_type(onedraw.distribution(rows), onedraw.Distribution | list[onedraw.Distribution])

    explanation = onedraw.explain(numbers, listed=2, min_p=0.1)
    assert_type(explanation, onedraw.Explanation)
    for stage in explanation.stages:
        assert_type(stage, onedraw.StageEffect)
        assert_type(stage.best, onedraw.Candidate)
        assert_type(stage.best.probability, float)
        assert_type(stage.border, onedraw.Candidate | None)
        assert_type(stage.decision, str | None)
    assert_type(onedraw.explain([row, row]), list[onedraw.Explanation])
    assert_type(onedraw.explain(row), onedraw.Explanation | list[onedraw.Explanation])


def parameters() -> None:
    params = onedraw.SamplingParams(
        temperature=np.float32(0.7), top_k=np.int64(50), seed=None, stop="END", eos_token_id=[2], logit_bias={3: 1.5, 4: -1},
        penalty_scope="all", logprobs_mode="raw_logits", allowed_token_ids=np.arange(4), bad_words_ids=[[1, 2]], banned_strings=["no"],
        order="vllm",
    )
    assert_type(params, onedraw.SamplingParams)
    assert_type(params.replace(top_k=5).top_k, int)
    assert_type(params.stop, list[str])
    assert_type(params.logit_bias, dict[int, float])
    assert_type(params.allowed_token_ids, list[int] | None)
    assert_type(params.seed, int | None)
    assert_type(params.penalty_scope, Literal["output", "all"])
    assert_type(params.order, list[str | onedraw.Edit | onedraw.Truncation] | None)
    assert_type(params.to_dict(), dict[str, Any])
    assert onedraw.SamplingParams.from_json(params.to_json()) == params
    imported, notes = onedraw.SamplingParams.import_settings('{"temperature": 0.6}', "llama.cpp")
    assert_type(imported, onedraw.SamplingParams)
    assert_type(notes, list[str])
    assert_type(presets.creative(), onedraw.SamplingParams)
    assert presets.by_name(presets.NAMES[0]) == onedraw.SamplingParams.preset("creative")
    assert_type(onedraw.order("vllm"), list[str])
    assert_type(onedraw.__version__, str)


def no_echo(view: onedraw.View) -> dict[int, float] | None:
    assert_type(view.logits, NDArray[np.float32])
    assert_type(view.output, list[int])
    return {view.output[-1]: float("-inf")} if view.output else None


def stages() -> None:
    edit = onedraw.Edit("no_echo", no_echo)
    positive = onedraw.Truncation("positive", lambda view: view.logits > 0)
    even = onedraw.Truncation("even", lambda view: range(0, len(view.logits), 2))
    params = onedraw.SamplingParams(order=[even, "temperature"]).with_stage(edit, before="temperature").with_stage(positive, before=edit)
    assert_type(onedraw.Sampler(params).sample(row).token, int)


def samplers() -> None:
    sampler = onedraw.Sampler("balanced", seed=7, prompt_token_ids=[0, 1, 2], kernel="scalar")
    assert_type(sampler.sample(row), onedraw.Sampled)
    assert_type(sampler.sample(numbers, mask=np.array([0b0101], dtype=np.uint32)), onedraw.Sampled)
    sampler.accept(sampler.peek(row))
    sampler.accept(3)
    sampler.rewind(2)
    sampler.take_back(onedraw.Rewind(length=1, token=sampler.output[1]))
    assert_type(sampler.sample_uniform(row, 0.5), onedraw.Sampled)
    assert_type(sampler.distribution(row), onedraw.Distribution)
    assert_type(sampler.explain(row, listed=3), onedraw.Explanation)
    for report in sampler.prompt_logprobs(rows):
        assert_type(report, onedraw.Report | onedraw.RowError | None)
        if isinstance(report, onedraw.Report):
            assert_type(report.rank, int)
    assert_type(sampler.seed, int)
    assert_type(sampler.mirostat_mu, float | None)
    assert_type(onedraw.Sampler.load(sampler.save()), onedraw.Sampler)
    assert_type(copy.copy(sampler), onedraw.Sampler)
    assert_type(onedraw.Sampler.sequences(n=2), list[onedraw.Sampler])


def batches() -> None:
    batch = onedraw.Batch(threads=1)
    first = batch.add("creative", seed=1)
    second = batch.fork(first)
    assert_type(first, onedraw.SequenceId)
    assert_type(batch.sample(first, row), onedraw.Sampled)
    assert_type(batch.sample([first, second], rows, masks=[None, [True, True, False, False]]), onedraw.Samples)
    assert_type(batch.peek(first, row, 1), onedraw.Sampled)
    assert_type(batch.peek([first], [row]), onedraw.Samples)
    assert_type(batch.distributions(first, row), onedraw.Distribution)
    assert_type(batch.distributions([first], [row]), list[onedraw.Distribution])
    assert_type(batch.explanations(first, row), onedraw.Explanation)
    assert_type(batch.explanations([first], [row], listed=1), list[onedraw.Explanation])
    assert_type(batch.best(first, row, 2), list[onedraw.TokenLogprob])
    assert_type(batch.best([first], [row], 2), list[list[onedraw.TokenLogprob]])
    batch.accept(first, batch.peek(first, row))
    batch.rewind(first, 1)
    batch.take_back(first, onedraw.Rewind(0, batch.output(first)[0]))
    assert_type(batch.load(batch.save(first)), onedraw.SequenceId)
    assert_type(batch.seed(first), int)
    assert_type(batch.mirostat_mu(first), float | None)
    assert_type(batch.add_all(n=2), list[onedraw.SequenceId])
    assert_type(batch.remove(second), bool)
    assert {first: len(batch)}[first] == 4

    runners = batch.runners(first, row, 2)
    assert_type(runners[0].behind, float)
    guess = batch.guess(first, row, 2, len(batch.output(first)))
    assert_type(guess.probability(2), float | None)
    draft = onedraw.Draft()
    places = draft.grow(None, guess)
    assert_type(places, list[int])
    draft.grow(places[0], [1], law=onedraw.distribution(numbers))
    assert_type(draft.parents, list[int | None])
    verdict = batch.verify(first, onedraw.Draft.chain([runner.token for runner in runners]), [row] * 3, verify="exact")
    assert_type(verdict.sampled, list[onedraw.Sampled])
    assert_type(verdict.error, onedraw.RowError | None)


def decode_loops() -> None:
    matcher = onedraw.StopMatcher(stop=["END"], max_tokens=100)
    progress = matcher.push(1, "the E")
    assert_type(progress.text, bytes)
    assert_type(progress.finish_reason, FinishReason | None)
    assert_type(progress.rewind, onedraw.Rewind | None)
    assert_type(matcher.finish(), bytes)
    stream = onedraw.Utf8Stream()
    assert_type(stream.push("é".encode()) + stream.finish(), str)

    vocabulary = onedraw.Vocabulary(["", b"y", "n", "yes", "no", "true"], eos=[0])
    text = onedraw.Grammar.choices(vocabulary, ["yes", "no"]).start()
    assert_type(text.mask(), NDArray[np.uint32])
    text.accept(3)
    assert_type(text.fork().forced(), list[int])
    text.rollback(1)
    assert_type(onedraw.Grammar.json_schema(vocabulary, {"const": True}), onedraw.Grammar)
    assert_type(onedraw.Grammar.regex(vocabulary, "y|n"), onedraw.Grammar)
    assert_type(onedraw.Grammar.lark(vocabulary, 'start: "yes"'), onedraw.Grammar)

    search = onedraw.BeamSearch(width=2, n=2, max_tokens=2, early_stopping="never")
    while not search.is_done:
        assert_type(search.beams[0].tokens, list[int])
        expansion = search.step([row] * len(search), continuation=lambda beam, token: "ends" if token == 3 else None)
        assert_type(expansion.beams, NDArray[np.int64])
    assert_type(search.finish(), list[onedraw.Hypothesis])
    assert_type(onedraw.Contrast.guidance(1.5).apply(row, numbers), NDArray[np.float32])


def texts() -> None:
    generator = onedraw.Generator(draft="ngram", verify="exact")
    tokenizer = generator.tokenizer
    tokens = tokenizer.encode("Once upon a time")
    assert_type(tokenizer.text(tokens), str)
    assert_type(tokenizer.bytes(tokens[0]), bytes)
    assert_type(tokenizer.id("zzz"), int | None)
    generated = generator.generate("Once", temperature=0, max_tokens=2)
    assert_type(generated, onedraw.Generated | list[onedraw.Generated])
    assert isinstance(generated, onedraw.Generated)
    assert_type(generated.text, str)
    assert_type(generated.finish_reason, FinishReason | None)
    assert_type(generated.prompt_logprobs, list[onedraw.Report | onedraw.RowError | None] | None)
    assert_type(generator.generate(["Once", "The"], [None, "creative"], max_tokens=1), list[onedraw.Generated])
    grammar = onedraw.Grammar.regex(generator.vocabulary(), "[a-z ]+")
    for event in generator.stream(tokens, max_tokens=2, grammar=grammar):
        assert_type(event, onedraw.Event)
        assert_type(event.sampled, onedraw.Sampled | None)
    request = generator.add("Once", generator.params(max_tokens=1), grammar=grammar.start())
    assert_type(request, onedraw.RequestId)
    assert_type(generator.step(), list[onedraw.Event])
    assert_type(generator.cancel(request), list[onedraw.Event])
    assert_type(generator.beams("Once", width=2, style="vllm", max_tokens=1)[0].text, str | None)
    assert_type(generator.logits("Once").shape, tuple[int, int])


def devices() -> None:
    assert_type(onedraw.cuda.is_available(), bool)
    if onedraw.cuda.why_not() is not None:
        return
    batch = onedraw.cuda.Batch(vocabulary=50, sequences=2, rows=2, logprobs=1)
    first = batch.add("precise", seed=1)
    assert_type(first, onedraw.cuda.SequenceId)
    batch.prepare([first, *batch.add_all(n=1)], masks=[None, np.ones(50, dtype=np.bool_)], stream=0)
    batch.accept(first, 3)
    batch.take_back(first, onedraw.Rewind(0, 3))
    assert_type(batch.position(first), int)
    assert_type(batch.tokens, onedraw.cuda.DeviceArray)
    assert_type(batch.tokens.shape, tuple[int])


def errors() -> None:
    try:
        onedraw.SamplingParams(top_p=1.5)
    except onedraw.ParamError as error:
        assert_type(error.field, str)
    try:
        onedraw.sample([[1.0], [float("nan")]])
    except onedraw.RowsError as error:
        assert_type(error.errors, dict[int, onedraw.RowError])
        assert_type(error.errors[1].kind, str)
    try:
        onedraw.Grammar.lark(onedraw.Vocabulary(["", "a"], eos=[0]), "start: (")
    except onedraw.GrammarError as error:
        assert_type(error.line, int | None)


def main() -> None:
    for part in (single_calls, parameters, stages, samplers, batches, decode_loops, texts, devices, errors):
        part()


if __name__ == "__main__":
    main()
