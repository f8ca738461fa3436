"""Stages written in Python, at a named place in the order."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from conftest import row

import onedraw


def lift(view: onedraw.View) -> dict[int, float]:
    """At module level, so that it can be pickled."""
    return {0: 100.0}


def test_an_edit_stands_where_it_is_set() -> None:
    logits = np.array([0.0, 2.0, 1.0], "f4")
    edit = onedraw.Edit("lift", lift)
    base = onedraw.SamplingParams(temperature=1, top_k=1, seed=0)
    before, after = base.with_stage(edit, before="top_k"), base.with_stage(edit, before="top_p")
    assert onedraw.distribution(logits, before).tokens.tolist() == [0]
    assert onedraw.distribution(logits, after).tokens.tolist() == [1], "what top-k has removed stays gone"
    assert before.order is not None
    assert before.order.index(edit) == before.order.index("top_k") - 1
    stages = [effect.stage for effect in onedraw.explain(logits, before).stages]
    assert stages == ["row", "lift", "top_k"]


def test_an_edit_does_what_the_same_parameter_does() -> None:
    bias = {3: 2.5, 9: -4.0}
    edit = onedraw.Edit("bias", lambda view: {token: view.logits[token] + value for token, value in bias.items()})
    own = onedraw.SamplingParams(temperature=0.7, top_p=0.9, seed=5).with_stage(edit, before="penalties")
    built_in = onedraw.SamplingParams(temperature=0.7, top_p=0.9, seed=5, logit_bias=bias)
    for seed in range(20):
        logits = row(seed, 200)
        assert onedraw.distribution(logits, own) == onedraw.distribution(logits, built_in)
        for shards in (1, 3):
            assert onedraw.Sampler(own, shards=shards).sample(logits) == onedraw.sample(logits, built_in)


def test_a_dense_edit_and_none() -> None:
    logits = row(1, 64)
    half = onedraw.Edit("half", lambda view: view.logits / 2)
    assert onedraw.distribution(logits, order=[half]) == onedraw.distribution(logits / np.float32(2))
    nothing = onedraw.Edit("nothing", lambda view: None)
    assert onedraw.distribution(logits, order=[nothing]) == onedraw.distribution(logits)


def test_a_truncation() -> None:
    logits = row(2, 64)
    for function in (lambda view: [5, 6, 7], lambda view: np.array([7, 5, 6]), lambda view: np.isin(np.arange(64), [5, 6, 7]), lambda view: [5 <= i <= 7 for i in range(64)]):
        params = onedraw.SamplingParams(temperature=0.8).with_stage(onedraw.Truncation("three", function), before="min_p")
        assert sorted(onedraw.distribution(logits, params).tokens) == [5, 6, 7]


def test_a_truncation_with_a_bool_too_few() -> None:
    with pytest.raises(onedraw.RowError, match="the stage own: TypeError: there are 3 bools; this row has 64 tokens"):
        onedraw.sample(row(2, 64), order=[onedraw.Truncation("own", lambda view: [True, False, True])])


def test_what_a_stage_sees() -> None:
    seen: list[onedraw.View] = []
    watch = onedraw.Edit("watch", lambda view: seen.append(view))
    sampler = onedraw.Sampler(
        temperature=2.0, allowed_token_ids=[0, 2], prompt_token_ids=[1, 1], output_token_ids=[2], order=["allowed", "temperature", watch]
    )
    sampler.sample([4.0, 6.0, 8.0])
    (view,) = seen
    assert view.logits.tolist() == [2.0, -np.inf, 4.0], "divided by the temperature, -inf where a token is gone"
    assert (view.prompt, view.output, view.position, view.temperature) == ([1, 1], [2], 1, 1.0)
    keep = onedraw.Truncation("keep", lambda view: (seen.append(view), [0, 2])[1])
    onedraw.sample([4.0, 6.0, 8.0], temperature=2.0, order=["temperature", keep])
    assert (seen[1].logits.tolist(), seen[1].temperature) == ([4.0, 6.0, 8.0], 2.0), "the temperature is still to come"
    view.logits[:] = 0.0  # A copy: nothing else sees it.
    assert repr(view) == "View(3 logits, position=1, temperature=1)"


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda view: {99: 1.0}, "the stage own: token 99 is outside the vocabulary; ids of this row are 0 to 2"),
        (lambda view: {0: float("nan")}, "the stage own: the new logit of token 0 is NaN; logits are finite or -inf (masked)"),
        (lambda view: np.zeros(5, "f4"), "the stage own: a dense change has 5 logits; this row has 3"),
        (lambda view: {"a": 1.0}, "the stage own: TypeError:"),
        (lambda view: 1 / 0, "the stage own: ZeroDivisionError: division by zero (" + __file__),
        (lambda view: "text", "the stage own: TensorError: logits are a NumPy array"),
    ],
)
def test_a_stage_that_fails_is_the_rows_error(function: Any, words: str) -> None:
    with pytest.raises(onedraw.RowError) as raised:
        onedraw.sample([0.0, 1.0, 2.0], order=[onedraw.Edit("own", function)])
    assert words in str(raised.value)
    assert raised.value.kind == "custom_stage"
    # The other rows are untouched.
    with pytest.raises(onedraw.RowsError) as rows:
        onedraw.sample(np.zeros((2, 3), "f4"), [{"order": [onedraw.Edit("own", function)]}, {"temperature": 0}])
    assert list(rows.value.errors) == [0]
    assert rows.value.results[1].token == 0


def test_a_stage_may_draw_but_not_with_its_own_sampler() -> None:
    inner = onedraw.Edit("inner", lambda view: {onedraw.sample([0.0, 5.0, 0.0], temperature=0).token: 9.0})
    assert onedraw.sample([0.0, 0.0, 0.0], temperature=0, order=["temperature", inner]).token == 1
    sampler: onedraw.Sampler
    itself = onedraw.Edit("itself", lambda view: {sampler.position: 1.0})
    sampler = onedraw.Sampler(order=[itself])
    with pytest.raises(onedraw.RowError, match="RuntimeError: it is in use: a stage or a continuation cannot use what is drawing with it"):
        sampler.sample([0.0, 1.0])
    batch = onedraw.Batch(threads=2)
    again = onedraw.Edit("again", lambda view: {len(batch): 1.0})
    ids = [batch.add(order=[again]) for _ in range(4)]
    with pytest.raises(onedraw.RowsError, match="it is in use"):
        batch.sample(ids, np.zeros((4, 8), "f4"))


def test_stages_run_on_the_batchs_threads() -> None:
    edit = onedraw.Edit("last", lambda view: {len(view.logits) - 1: 50.0})
    batch = onedraw.Batch(threads=2)
    ids = [batch.add(temperature=0, order=["temperature", edit]) for _ in range(16)]
    assert batch.sample(ids, np.zeros((16, 33), "f4")).tokens.tolist() == [32] * 16


def test_a_stage_may_use_threads_of_its_own() -> None:
    """The thread that waits for them may be handed the next row meanwhile, in the middle of its own."""

    def inner(view: onedraw.View) -> dict[int, float]:
        batch = onedraw.Batch(threads=2)
        ids = [batch.add(temperature=0) for _ in range(4)]
        tokens = batch.sample(ids, np.stack([np.roll(view.logits, i) for i in range(4)])).tokens
        return {int(tokens[3]): 99.0}

    outer = onedraw.Batch(threads=2)
    ids = [outer.add(temperature=0, order=["temperature", onedraw.Edit("inner", inner)]) for _ in range(12)]
    rows = np.zeros((12, 40), "f4")
    rows[np.arange(12), np.arange(12)] = 1
    for _ in range(5):
        assert outer.peek(ids, rows).tokens.tolist() == [i + 3 for i in range(12)]


def test_what_a_stage_raises_is_the_cause() -> None:
    def broken(view: onedraw.View) -> None:
        raise LookupError("nothing there")

    with pytest.raises(onedraw.RowError, match="the stage broken: LookupError: nothing there") as raised:
        onedraw.sample([0.0, 1.0], order=[onedraw.Edit("broken", broken)])
    cause = raised.value.__cause__
    assert isinstance(cause, LookupError)
    assert cause.__traceback__ is not None
    with pytest.raises(onedraw.RowsError) as rows:
        onedraw.sample(np.zeros((2, 3), "f4"), order=[onedraw.Edit("broken", broken)])
    assert [type(error.__cause__) for error in rows.value.errors.values()] == [LookupError, LookupError]
    assert "\1" not in str(rows.value)


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_an_interruption_is_no_error_of_a_row(interruption: type[BaseException]) -> None:
    def stop(view: onedraw.View) -> None:
        raise interruption

    edit = onedraw.Edit("stop", stop)
    batch = onedraw.Batch(threads=2)
    ids = [batch.add(order=[edit]) for _ in range(4)]
    generator = onedraw.Generator()
    for draw in (
        lambda: onedraw.sample([0.0, 1.0], order=[edit]),
        lambda: onedraw.Sampler(order=[edit]).sample([0.0, 1.0]),
        lambda: batch.sample(ids, np.zeros((4, 3), "f4")),
        lambda: generator.generate("Once", onedraw.SamplingParams(order=[edit])),
        lambda: list(generator.stream("Once", onedraw.SamplingParams(order=[edit]))),
    ):
        with pytest.raises(interruption):
            draw()
    assert onedraw.sample([0.0, 1.0], temperature=0).token == 1, "and it is over then"


def test_a_dict_that_changes_while_it_is_read() -> None:
    class Grows:
        def __init__(self, changes: dict[Any, Any]) -> None:
            self.changes = changes

        def __index__(self) -> int:
            self.changes[len(self.changes) + 10] = 1.0
            return 1

    def edit(view: onedraw.View) -> dict[Any, float]:
        changes: dict[Any, float] = {0: 0.0}
        changes[Grows(changes)] = 50.0
        return changes

    assert onedraw.sample([0.0, 0.0, 0.0], temperature=0, order=["temperature", onedraw.Edit("grows", edit)]).token == 1


def test_names_and_functions_are_checked() -> None:
    for name in ("", "a,b", "top_k"):
        with pytest.raises(onedraw.ParamError, match="cannot name a stage"):
            onedraw.Edit(name, lift)
    with pytest.raises(TypeError, match="a stage is a function of a View, not an object of the type int"):
        onedraw.Truncation("x", 5)  # type: ignore[arg-type]
    with pytest.raises(onedraw.ParamError, match="order: does not name top_k, so nothing can stand before it"):
        onedraw.SamplingParams(order=["top_p"]).with_stage(onedraw.Edit("x", lift), before="top_k")


def test_parameters_with_stages_are_kept() -> None:
    params = onedraw.SamplingParams(seed=1).with_stage(onedraw.Edit("lift", lift), before="temperature")
    again = pickle.loads(pickle.dumps(params))
    assert onedraw.sample([0.0, 5.0], again, temperature=0).token == 0
    assert repr(again) == repr(params)
    other = params.replace(top_k=3)
    assert other.order == params.order
    with pytest.raises(onedraw.ParamError, match="the stage lift is a user's own and cannot be written"):
        params.to_json()
