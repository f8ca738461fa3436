"""Draws on a CUDA device beside the CPU: everything that is said of a row is the same. Without a device the words are tested, and the rest is skipped."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import row

import onedraw

WHY_NOT = onedraw.cuda.why_not()
VOCABULARY = 1025
ROWS = np.stack([row(seed, VOCABULARY) for seed in range(6)])
# `onedraw.sample` tells the probability where it tells logprobs, a batch where it is asked to.
SETTINGS: list[dict[str, Any]] = [
    {"seed": 1},
    {"seed": 2, "temperature": 0.8, "top_p": 0.9, "top_k": 50, "logprobs": 3, "probability": True},
    {"seed": 3, "temperature": 0, "logprobs": 0, "logprobs_mode": "raw_logprobs", "probability": True},
    {"seed": 4, "repetition_penalty": 1.3, "frequency_penalty": 0.3, "prompt_token_ids": [1, 2, 3]},
    {"seed": 5, "min_p": 0.02, "logit_bias": {7: 4.0}, "min_tokens": 3, "eos_token_id": [9]},
    {"seed": 6, "typical_p": 0.7, "bad_words_ids": [[4], [5, 6]], "temperature": 1.4},
]
STAGES: dict[str, dict[str, Any]] = {
    "xtc": {"seed": 11, "xtc_probability": 0.6, "xtc_threshold": 0.02, "xtc_protected_token_ids": [3]},
    "mirostat 1": {"seed": 12, "mirostat": 1, "mirostat_tau": 3.0},
    "mirostat 2": {"seed": 13, "mirostat": 2, "mirostat_eta": 0.3, "probability": True},
    "dry": {"seed": 14, "temperature": 0.3, "dry_multiplier": 0.8, "dry_allowed_length": 1, "prompt_token_ids": [1, 2, 3, 1, 2]},
    "n-grams": {"seed": 15, "temperature": 0.3, "no_repeat_ngram_size": 2, "prompt_token_ids": [1, 2, 3, 1, 2]},
    "smoothing": {"seed": 16, "smoothing_factor": 0.3, "smoothing_curve": 1.5},
    "dynamic temperature": {"seed": 17, "temperature": 1.2, "dynatemp_range": 0.7, "top_k": 40},
    "kept ids": {"seed": 18, "top_p": 0.8, "kept": "ids"},
    "kept summary": {"seed": 19, "min_p": 0.05, "kept": "summary"},
    "all logprobs": {"seed": 20, "top_k": 40, "logprobs": -1, "probability": True},
    "all raw logprobs": {"seed": 21, "logprobs": -1, "logprobs_mode": "raw_logprobs", "probability": True},
    "late edits": {"seed": 22, "temperature": 0.7, "repetition_penalty": 1.4, "logit_bias": {3: 2.5}, "top_p": 0.9, "order": "temperature,penalties,top_p,logit_bias"},
    "banned strings": {"seed": 23, "banned_strings": ["no"], "frequency_penalty": 0.5, "penalty_window": 3},
}
"""What only the CPU knew at first."""


class There:
    """What says that it is on a device, and is not."""

    def __init__(self, device: tuple[int, int] = (2, 0)) -> None:
        self.device = device

    def __len__(self) -> int:
        return 4

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **options: Any) -> object:
        return np.zeros(4, "f4").__dlpack__()


class Foreign:
    """A tensor of a library that nobody knows, and the streams that it was asked for."""

    def __init__(self, tensor: Any) -> None:
        self.tensor, self.streams = tensor, set[Any]()

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self.tensor.__dlpack_device__()
        return device

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> object:
        self.streams.add(stream)
        return self.tensor.__dlpack__(stream=stream, **options)


def test_what_is_missing_is_said() -> None:
    assert onedraw.cuda.is_available() == (WHY_NOT is None)
    if WHY_NOT is None:
        words = onedraw.cuda.why_not(1000)
        assert words is not None
        assert words.startswith("there is no CUDA device 1000; devices found: ")
        return
    if sys.platform == "linux":
        assert WHY_NOT == "no NVIDIA driver was found (libcuda): install one, or draw on the CPU"
    uses: list[Callable[[], object]] = [lambda: onedraw.cuda.Batch(8), lambda: onedraw.sample(There())]
    for use in uses:
        with pytest.raises(onedraw.CudaError) as raised:
            use()
        assert str(raised.value) == WHY_NOT
        assert isinstance(raised.value, RuntimeError)


def test_the_cpu_says_who_draws_on_a_device() -> None:
    batch = onedraw.Batch()
    one = batch.add()
    uses: list[Callable[[], object]] = [
        lambda: batch.sample(one, There((2, 3))),
        lambda: batch.sample([one], There((2, 3))),
        lambda: onedraw.Sampler().sample(There((2, 3))),
        lambda: onedraw.distribution(There((2, 3))),
        lambda: onedraw.sample([There((2, 3))]),
    ]
    for use in uses:
        with pytest.raises(onedraw.TensorError, match="the logits are on the CUDA device 3: onedraw.cuda.Batch draws there, and onedraw.sample"):
            use()
    with pytest.raises(onedraw.ParamError, match=r"kernel: cuda is no instruction set of this machine: onedraw\.cuda\.Batch"):
        onedraw.Sampler(kernel="cuda")


def test_what_a_device_can_draw_is_known_without_one() -> None:
    onedraw.cuda.check("creative", seed=1)
    for params in (*SETTINGS, *STAGES.values()):
        onedraw.cuda.check(params)
    for own in (onedraw.Truncation("own", lambda view: [0]), onedraw.Edit("own", lambda view: {0: 1.0})):
        with pytest.raises(onedraw.CudaError) as raised:
            onedraw.cuda.check(order=["top_p", own])
        assert str(raised.value) == "own is a stage of your own, which a device cannot run: draw these rows on the CPU, or make it a logit_bias or a mask"
    with pytest.raises(onedraw.ParamError, match="top_p"):
        onedraw.cuda.check(top_p=2)
    with pytest.raises(onedraw.ParamError, match="logprobs: must be at least 0, or -1 for all, not -2"):
        onedraw.cuda.Batch(8, logprobs=-2)


def test_a_stream_is_for_a_device() -> None:
    with pytest.raises(onedraw.TensorError, match="a stream is for logits on a CUDA device"):
        onedraw.sample(row(1, 50), stream=1)
    assert onedraw.sample(row(1, 50), stream=None, seed=1) == onedraw.sample(row(1, 50), seed=1)


LAYOUTS: dict[str, Callable[[Any, Any], Any]] = {
    "contiguous": lambda torch, rows: rows,
    "padded": lambda torch, rows: torch.nn.functional.pad(rows, (0, 5), value=99)[:, :-5],
    "aligned": lambda torch, rows: torch.nn.functional.pad(rows, (8, 7), value=99)[:, 8:-7],
    "offset": lambda torch, rows: torch.nn.functional.pad(rows, (3, 0), value=99)[:, 3:],
    "every second": lambda torch, rows: rows.repeat_interleave(2, dim=0)[::2],
    "expanded": lambda torch, rows: rows[:1].expand(6, -1),
    "of three dimensions": lambda torch, rows: torch.stack([rows * 0 + 99, rows], dim=1)[:, -1, :],
}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_may_lie_anyhow(torch: Any, dtype: str, layout: str) -> None:
    rows = LAYOUTS[layout](torch, torch.from_numpy(ROWS).to("cuda", getattr(torch, dtype)))
    expected = onedraw.sample(rows.cpu(), SETTINGS)
    assert list(onedraw.sample(rows, SETTINGS)) == list(expected)
    assert onedraw.sample(rows[2], SETTINGS[2]) == expected[2]
    batch = onedraw.cuda.Batch(VOCABULARY, 6, logprobs=3)
    ids = [batch.add(params) for params in SETTINGS]
    assert list(batch.sample(ids, rows)) == list(expected)


@pytest.mark.parametrize("size", [1, 2, 17, 64, 65, 4096, 50_257])
def test_sizes(torch: Any, size: int) -> None:
    rows = np.stack([row(seed, size) for seed in range(3)])
    params = {"seed": 11, "temperature": 0.9, "top_k": 40, "top_p": 0.95}
    for listed in (min(3, size), -1):
        asked: Any = {**params, "logprobs": listed}
        assert list(onedraw.sample(torch.from_numpy(rows).cuda(), asked)) == list(onedraw.sample(rows, asked))


def test_several_sequences_of_a_row(torch: Any) -> None:
    there = torch.from_numpy(ROWS).cuda()
    params = [settings | {"n": 1 + i % 3} for i, settings in enumerate(SETTINGS)]
    assert list(onedraw.sample(there, params)) == list(onedraw.sample(ROWS, params))
    assert list(onedraw.sample(there[0], seed=3, n=1500)) == list(onedraw.sample(ROWS[0], seed=3, n=1500))
    many = np.concatenate([ROWS] * 400)
    assert list(onedraw.sample(torch.from_numpy(many).cuda(), seed=1)) == list(onedraw.sample(many, seed=1))


def test_masks(torch: Any) -> None:
    there = torch.from_numpy(ROWS).cuda()
    random = np.random.default_rng(1)
    words = random.integers(0, 2**32, (6, -(-VOCABULARY // 32)), dtype=np.uint32)
    on_device = torch.from_numpy(words.view(np.int32)).cuda()
    some = [words[0], None, random.random(VOCABULARY) < 0.1, words[3].view(np.int32), None, words[5]]
    expected = onedraw.sample(ROWS, SETTINGS, mask=list(words))
    assert list(onedraw.sample(there, SETTINGS, mask=on_device)) == list(expected)
    assert list(onedraw.sample(there, SETTINGS, mask=list(words))) == list(expected)
    assert list(onedraw.sample(there, SETTINGS, mask=some)) == list(onedraw.sample(ROWS, SETTINGS, mask=some))
    assert onedraw.sample(there[1], SETTINGS[1], mask=on_device[1]) == expected[1]
    n = onedraw.sample(there[1], seed=1, n=3, mask=words[1])
    assert list(n) == list(onedraw.sample(ROWS[1], seed=1, n=3, mask=words[1]))
    batch = onedraw.cuda.Batch(VOCABULARY, logprobs=3)
    ids = [batch.add(params) for params in SETTINGS]
    batch.prepare(ids, masks=on_device)
    batch.launch(there)
    assert list(batch.results()) == list(expected)
    batch.sample(ids, there, masks=on_device)
    with pytest.raises(onedraw.CudaError, match="the matrix has 6 rows for 0 turns"):
        batch.launch(there)  # The masks may be gone by now.
    for mask, words_of_it in [(on_device[0, ::2], "32-bit words"), (on_device.long()[0], "32-bit words"), (on_device, "32-bit words")]:
        with pytest.raises(onedraw.TensorError, match=words_of_it):
            onedraw.sample(there[0], mask=mask)
    for short in (words[0, :5], on_device[0, :5], words[0, :0], on_device[0, :0]):
        with pytest.raises(onedraw.RowError) as raised:
            onedraw.sample(there[0], mask=short)
        assert raised.value.kind == "mask_too_short"


def test_bad_rows_are_the_same_errors(torch: Any) -> None:
    rows = ROWS.copy()
    rows[1, 3], rows[4, 0], rows[5] = np.nan, np.inf, -np.inf
    errors = []
    for logits in (rows, torch.from_numpy(rows).cuda()):
        with pytest.raises(onedraw.RowsError) as raised:
            onedraw.sample(logits, SETTINGS)
        errors.append(raised.value)
    assert str(errors[0]) == str(errors[1])
    assert [errors[1].results[i] for i in (0, 2, 3)] == [errors[0].results[i] for i in (0, 2, 3)]
    batch = onedraw.cuda.Batch(VOCABULARY, logprobs=3)
    ids = [batch.add(params) for params in SETTINGS]
    batch.prepare(ids)
    batch.launch(torch.from_numpy(rows).cuda())
    assert torch.as_tensor(batch.statuses, device="cuda").tolist() == [0, 1, 0, 0, 2, 3]
    with pytest.raises(onedraw.RowsError):
        batch.results()
    assert [batch.position(one) for one in ids] == [1, 0, 1, 1, 0, 0]


def test_what_has_no_rows(torch: Any) -> None:
    assert len(onedraw.sample(torch.zeros(0, 5, device="cuda"))) == 0
    for empty in (torch.zeros(0, device="cuda"), torch.zeros(3, 0, device="cuda")):
        with pytest.raises(onedraw.RowError) as raised:
            onedraw.sample(empty)
        assert raised.value.kind == "empty_row"
    batch = onedraw.cuda.Batch(5)
    assert len(batch.sample([], torch.zeros(0, 5, device="cuda"))) == 0
    batch.prepare([])
    batch.launch(torch.zeros(0, 5, device="cuda"))
    assert len(batch.results()) == len(batch.tokens) == 0


def test_a_batch_draws_what_the_cpu_draws(torch: Any) -> None:
    there, here = onedraw.cuda.Batch(VOCABULARY, 6, logprobs=3), onedraw.Batch()
    ids = [(there.add(params), here.add(params)) for params in SETTINGS]
    for step in range(8):
        turn = np.random.default_rng(step).permutation(6)[: 3 + step % 4]
        rows = np.stack([row(100 + 10 * step + int(i), VOCABULARY, 0.5) for i in turn])
        drawn = there.sample([ids[i][0] for i in turn], torch.from_numpy(rows).cuda())
        assert list(drawn) == list(here.sample([ids[i][1] for i in turn], rows))
        there.accept(ids[step % 6][0], 5)
        here.accept(ids[step % 6][1], 5)
    assert [there.position(one) for one, _ in ids] == [len(here.output(other)) for _, other in ids]


@pytest.mark.parametrize("name", STAGES)
def test_every_stage_is_that_of_the_cpu(torch: Any, name: str) -> None:
    params, logits = STAGES[name], torch.from_numpy(ROWS).cuda()
    assert list(onedraw.sample(logits, params)) == list(onedraw.sample(ROWS, params))
    assert list(onedraw.sample(logits[0], params, n=3)) == list(onedraw.sample(ROWS[0], params, n=3))
    there, here = onedraw.cuda.Batch(VOCABULARY, 2, logprobs=-1), onedraw.Batch()
    ids = [(there.add(other), here.add(other)) for other in (params, {**params, "seed": 1})]
    for step in range(12):
        # The same row again: what the text has already is likely.
        rows, on_device = ROWS[step % 2 : step % 2 + 2], logits[step % 2 : step % 2 + 2]
        assert list(there.peek([one for one, _ in ids], on_device)) == list(here.peek([other for _, other in ids], rows))
        assert list(there.sample([one for one, _ in ids], on_device)) == list(here.sample([other for _, other in ids], rows))
    mask = np.random.default_rng(2).random(VOCABULARY) < 0.3
    if "order" not in params:
        assert there.sample(ids[0][0], logits[3], masks=mask) == here.sample(ids[0][1], ROWS[3], masks=mask)


def test_all_stages_share_a_step(torch: Any) -> None:
    there, here = onedraw.cuda.Batch(VOCABULARY, 32, logprobs=-1), onedraw.Batch()
    every = [*SETTINGS, *STAGES.values()]
    ids, others = [there.add(params) for params in every], [here.add(params) for params in every]
    for step in range(4):
        rows = np.stack([row(300 + 50 * step + i, VOCABULARY, 1.0) for i in range(len(every))])
        assert list(there.sample(ids, torch.from_numpy(rows).cuda())) == list(here.sample(others, rows))


def test_sequences_come_and_go(torch: Any) -> None:
    batch, other = onedraw.cuda.Batch(50, 3), onedraw.cuda.Batch(50)
    first, second = batch.add(seed=1), batch.add(seed=2)
    assert (len(batch), batch.seed(second), first == second, batch.device) == (2, 2, False, 0)
    assert repr(batch) == "Batch(2 sequences on the CUDA device 0)"
    assert repr(first) == "SequenceId(slot=0, generation=0)"
    assert batch.remove(first)
    assert not batch.remove(first)
    assert not other.remove(second)
    batch.set_seed(second, 7)
    logits = torch.from_numpy(row(1, 50)).cuda()
    assert batch.sample(second, logits) == onedraw.sample(row(1, 50), seed=7)
    for use in (lambda: batch.seed(first), lambda: batch.accept(first, 1), lambda: batch.position(first), lambda: other.sample(second, logits)):
        with pytest.raises(onedraw.RowError) as raised:
            use()
        assert raised.value.kind == "unknown_sequence"
    assert len(batch.add_all(n=2)) == 2
    with pytest.raises(onedraw.CudaError, match="sequences: 4 are too many, there is room for 3"):
        batch.add()


def test_a_graph_draws_step_after_step(torch: Any) -> None:
    there, here = onedraw.cuda.Batch(VOCABULARY, 6, logprobs=3), onedraw.Batch()
    ids, others = [there.add(params) for params in SETTINGS], [here.add(params) for params in SETTINGS]
    logits = torch.zeros(6, VOCABULARY, dtype=torch.bfloat16, device="cuda")
    embedding = torch.arange(VOCABULARY, device="cuda") * 10
    there.prepare(ids)
    form = there.form
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        there.launch(logits)
        # The next step of a model: it reads the tokens where they are.
        read = embedding[torch.from_dlpack(there.tokens).long()]
    for step in range(6):
        rows = torch.from_numpy(np.stack([row(200 + 10 * step + i, VOCABULARY, 1.0) for i in range(6)])).bfloat16()
        logits.copy_(rows)
        there.prepare(ids)
        assert there.form == form
        graph.replay()
        drawn, expected = there.results(), here.sample(others, rows)
        assert list(drawn) == list(expected)
        assert read.tolist() == [10 * token for token in expected.tokens]


def test_a_peek_appends_nothing(torch: Any) -> None:
    there, here = onedraw.cuda.Batch(VOCABULARY, 6, logprobs=3), onedraw.Batch()
    ids, others = [there.add(params) for params in SETTINGS], [here.add(params) for params in SETTINGS]
    logits = torch.from_numpy(ROWS).cuda()
    for _ in range(2):
        expected = list(here.peek(others, ROWS))
        assert list(there.peek(ids, logits)) == expected
        assert there.peek(ids[1], logits[1]) == expected[1]
        # In a graph, too, and as often as it runs.
        there.prepare(ids, append=False)
        form, graph = there.form, torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            there.launch(logits)
        for _ in range(3):
            graph.replay()
        assert list(there.results()) == expected
        assert [there.position(one) for one in ids] == [len(here.output(other)) for other in others]
        assert list(there.sample(ids, logits)) == list(here.sample(others, ROWS)) == expected
        there.prepare(ids)
        assert there.form != form


def test_tokens_are_taken_back(torch: Any) -> None:
    there, here = onedraw.cuda.Batch(VOCABULARY, 6, logprobs=-1), onedraw.Batch()
    logits = torch.from_numpy(ROWS).cuda()
    for params in (*SETTINGS, *STAGES.values()):
        one, other = there.add(params), here.add(params)
        for _ in range(4):
            assert there.sample(one, logits[0]) == here.sample(other, ROWS[0])
        there.rewind(one, 9)
        assert there.position(one) == 4
        there.rewind(one, 1)
        here.rewind(other, 1)
        assert there.position(one) == 1
        assert there.sample(one, logits[1]) == here.sample(other, ROWS[1])
        # The text is the same at another position.
        there.set_position(one, 7)
        assert there.peek(one, logits[1]) == here.peek(other, ROWS[1], 5)
        assert there.sample(one, logits[1]).position == 7
        there.remove(one)


def test_banned_text_is_drawn_anew(torch: Any) -> None:
    there, here = onedraw.cuda.Batch(VOCABULARY, 2, logprobs=-1), onedraw.Batch()
    logits = torch.from_numpy(ROWS).cuda()
    for params in (*SETTINGS, *STAGES.values()):
        one, other = there.add(params), here.add(params)
        drawn = [there.sample(one, logits[i]) for i in range(4)]
        assert drawn == [here.sample(other, ROWS[i]) for i in range(4)]
        banned = {drawn[2].token}
        for length, token in ((2, drawn[2].token), (2, 5), (1, drawn[1].token)):
            rewind = onedraw.Rewind(length, token)
            there.take_back(one, rewind)
            here.take_back(other, rewind)
            assert there.position(one) == length
            again = there.peek(one, logits[length])
            assert again == here.peek(other, ROWS[length])
            assert length != 2 or again.token not in banned
        for i in range(1, 4):
            assert there.sample(one, logits[i]) == here.sample(other, ROWS[i])
        # A text that is not so long stays as it is.
        there.take_back(one, onedraw.Rewind(9, 5))
        assert there.position(one) == 4
        there.remove(one)
    with pytest.raises(onedraw.RowError) as raised:
        there.take_back(one, onedraw.Rewind(0, 5))
    assert raised.value.kind == "unknown_sequence"


def told(report: Any) -> Any:
    """What a report of a prompt says, or its error."""
    if isinstance(report, onedraw.RowError):
        return report.kind, str(report)
    return report.token, report.logprob, report.probability, report.rank, [(one.token, one.logprob, one.rank) for one in report.logprobs]


@pytest.mark.parametrize("listed", [None, 0, 3, -1])
@pytest.mark.parametrize("mode", ["raw_logprobs", "processed_logits"])
def test_logprobs_of_a_prompt(torch: Any, listed: int | None, mode: str) -> None:
    rows = ROWS.copy()
    rows[2, 7] = np.nan
    prompt, logits = [5, 1024, 7, 8, 0, 1], torch.from_numpy(rows).cuda()
    params: Any = {"prompt_token_ids": prompt, "prompt_logprobs": listed, "logprobs_mode": mode, "seed": 1}
    # Fewer rows than the prompt has: they are read in parts.
    batch = onedraw.cuda.Batch(VOCABULARY, 2, logprobs=-1)
    one = batch.add(params)
    expected = [told(report) for report in onedraw.Sampler(params).prompt_logprobs(rows)[1:]]
    assert (len(expected), expected[2][0]) == (5, "nan_logit")
    # The last row is after the end of the prompt.
    assert [told(report) for report in batch.prompt_logprobs(one, logits)] == expected
    parts = [batch.prompt_logprobs(one, logits[:2]), batch.prompt_logprobs(one, logits[2:], first=3)]
    assert [told(report) for part in parts for report in part] == expected
    assert batch.prompt_logprobs(one, logits, first=6) == []
    # Nothing is drawn, and the next draw is that of the CPU.
    assert batch.sample(one, logits[0]) == onedraw.sample(ROWS[0], params)
    batch.remove(one)
    with pytest.raises(onedraw.RowError) as raised:
        batch.prompt_logprobs(one, logits)
    assert raised.value.kind == "unknown_sequence"


@pytest.mark.parametrize("verify", ["exact", "rejection", "block", "typical"])
def test_drafts_are_verified(torch: Any, verify: Any) -> None:
    there, here = onedraw.cuda.Batch(VOCABULARY, 6, rows=8, logprobs=-1), onedraw.Batch()
    logits = torch.from_numpy(ROWS).cuda()
    for params in (*SETTINGS, *STAGES.values()):
        one, other = there.add(params), here.add(params)
        right = [drawn.token for drawn in here.verify(other, onedraw.Draft.chain([]), ROWS[:1]).sampled]
        for guesses in ([], right, [*right, 3, 4], [VOCABULARY - 1, 1]):
            rows = len(guesses) + 1
            expected = here.verify(other, onedraw.Draft.chain(guesses), ROWS[:rows], verify=verify)
            verdict = there.verify(one, onedraw.Draft.chain(guesses), logits[:rows], verify=verify)
            assert (verdict.path, verdict.sampled, verdict.error) == (expected.path, expected.sampled, None)
        assert there.position(one) == 0
        there.remove(one)


def test_results_are_read_once(torch: Any) -> None:
    there, here = onedraw.cuda.Batch(VOCABULARY, 6, logprobs=3), onedraw.Batch()
    ids, others = [there.add(params) for params in SETTINGS], [here.add(params) for params in SETTINGS]
    logits = torch.from_numpy(ROWS).cuda()

    def refused() -> None:
        with pytest.raises(onedraw.CudaError, match="there are no results to read: prepare, then launch, then read the results once"):
            there.results()

    refused()
    there.prepare(ids)
    refused()
    there.launch(logits)
    assert list(there.results()) == list(here.sample(others, ROWS))
    refused()
    assert list(there.sample(ids, logits)) == list(here.sample(others, ROWS))
    refused()
    there.prepare(ids)
    refused()
    # What was refused drew nothing; what nobody read was drawn all the same.
    for _ in range(2):
        there.prepare(ids)
        there.launch(logits)
        expected = here.sample(others, ROWS)
    assert [there.position(one) for one in ids] == [4] * 6
    assert list(there.results()) == list(expected)


def test_one_rule_for_streams(torch: Any) -> None:
    expected = list(onedraw.sample(ROWS, SETTINGS))
    batch = onedraw.cuda.Batch(VOCABULARY, logprobs=3)
    ids, side = [batch.add(params) for params in SETTINGS], torch.cuda.Stream()
    logits = Foreign(torch.from_numpy(ROWS).cuda())
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        batch.prepare(ids)
        batch.launch(logits)
        assert list(batch.results()) == expected
        assert list(onedraw.sample(logits, SETTINGS)) == expected
    assert logits.streams == {side.cuda_stream}


def test_tokens_are_those_of_the_last_launch(torch: Any) -> None:
    batch, logits = onedraw.cuda.Batch(VOCABULARY, logprobs=3), torch.from_numpy(ROWS).cuda()
    ids = [batch.add(params) for params in SETTINGS]
    batch.prepare(ids[:2])
    assert len(batch.tokens) == 0
    batch.launch(logits[:2])
    assert len(batch.tokens) == len(batch.statuses) == 2
    drawn = batch.results()
    batch.prepare(ids)
    assert batch.tokens.shape == (2,)
    assert torch.from_dlpack(batch.tokens).tolist() == drawn.tokens.tolist()
    batch.launch(logits)
    assert batch.tokens.shape == (6,)


def test_a_draw_waits_for_its_stream(torch: Any) -> None:
    expected = list(onedraw.sample(ROWS, SETTINGS))
    batch = onedraw.cuda.Batch(VOCABULARY, logprobs=3)
    side, source = torch.cuda.Stream(), torch.from_numpy(ROWS).cuda()
    logits = torch.zeros_like(source)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        logits.copy_(source)
        assert list(onedraw.sample(logits, SETTINGS)) == expected
        logits.zero_()
        torch.cuda._sleep(50_000_000)
        logits.copy_(source)
        ids = [batch.add(params) for params in SETTINGS]
        assert list(batch.sample(ids, logits)) == expected
        batch.prepare(ids)
        batch.launch(logits)
        tokens = torch.from_dlpack(batch.tokens)
        assert tokens.tolist() == batch.results().tokens.tolist()
    # Another stream than the current one: the current one is waited for, since it is the tensor's.
    for stream in (side, side.cuda_stream, 0, 1):
        logits.zero_()
        torch.cuda._sleep(50_000_000)
        logits.copy_(source)
        assert list(onedraw.sample(logits, SETTINGS, stream=stream)) == expected
    for wrong in ("fast", -1, 1.5):
        with pytest.raises(TypeError, match="a stream is an int"):
            onedraw.sample(logits, stream=wrong)


def test_tokens_are_read_where_they_are(torch: Any) -> None:
    batch = onedraw.cuda.Batch(VOCABULARY, logprobs=3)
    drawn = batch.sample([batch.add(params) for params in SETTINGS], torch.from_numpy(ROWS).cuda())
    tokens, statuses = batch.tokens, batch.statuses
    assert (len(tokens), tokens.shape, tokens.device, repr(tokens)) == (6, (6,), 0, "DeviceArray(6 int32 on the CUDA device 0)")
    for read in (torch.from_dlpack(tokens), torch.as_tensor(tokens, device="cuda")):
        assert (read.dtype, read.tolist()) == (torch.int32, drawn.tokens.tolist())
        address, _ = tokens.__cuda_array_interface__["data"]
        assert read.data_ptr() == address
    assert torch.from_dlpack(statuses).tolist() == [0] * 6
    read = torch.from_dlpack(tokens)
    del batch, tokens, statuses
    assert read.tolist() == drawn.tokens.tolist(), "the memory stays as long as somebody reads it"


def test_other_libraries(torch: Any) -> None:
    cupy = pytest.importorskip("cupy")
    expected = list(onedraw.sample(ROWS, SETTINGS))
    assert list(onedraw.sample(cupy.asarray(ROWS), SETTINGS)) == expected
    with cupy.cuda.Stream(non_blocking=True) as stream:
        there = cupy.asarray(ROWS)
        assert list(onedraw.sample(there, SETTINGS)) == expected
        assert list(onedraw.sample(there, SETTINGS, stream=stream)) == expected
    batch = onedraw.cuda.Batch(VOCABULARY, logprobs=3)
    drawn = batch.sample([batch.add(params) for params in SETTINGS], cupy.asarray(ROWS))
    assert cupy.asarray(batch.tokens).tolist() == drawn.tokens.tolist()


def test_what_cannot_be_drawn_there(torch: Any) -> None:
    logits = torch.from_numpy(ROWS).cuda()
    batch = onedraw.cuda.Batch(VOCABULARY, 2, rows=1)
    own: Any = {"order": [onedraw.Truncation("own", lambda view: [0])]}
    for use in (lambda p: onedraw.sample(logits[0], p), batch.add):
        with pytest.raises(onedraw.CudaError, match="own is a stage of your own, which a device cannot run"):
            use(own)
    for asked, words in [
        ({"logprobs": 3}, "logprobs: 3 are too many, there is room for 0"),
        ({"logprobs": -1}, "logprobs: 1025 are too many, there is room for 0"),
        ({"prompt_logprobs": 2}, "prompt_logprobs: 2 are too many, there is room for 0"),
    ]:
        with pytest.raises(onedraw.CudaError, match=words):
            batch.add(asked)
    with pytest.raises(onedraw.ParamError, match="top_p"):
        batch.add(top_p=2)
    one = batch.add(temperature=0)
    for tensor, words in [
        (logits[0].double(), "logits are float32, float16 or bfloat16, not float64"),
        (logits[:, ::2], "the logits of a row do not lie one after the other"),
        (logits[None], "not a tensor of 3 dimensions"),
        (logits[0].cpu(), "logits are one tensor on the CUDA device 0"),
        (ROWS[0], "not an object of the type ndarray elsewhere; onedraw.Batch draws on the CPU"),
        (There((2, 7)), "the logits are on the CUDA device 7; this batch draws on the device 0"),
        (logits, "there are 1 sequences and 6 rows; each sequence has one row"),
    ]:
        with pytest.raises(onedraw.TensorError, match=words.replace(".", r"\.")):
            batch.sample(one, tensor)
    with pytest.raises(onedraw.CudaError, match="the rows have 1000 logits; the batch was made for 1025"):
        batch.sample(one, logits[0, :1000])
    with pytest.raises(onedraw.CudaError, match="rows: 2 are too many, there is room for 1"):
        batch.sample([one, one], logits[:2])
    batch.prepare(one)
    with pytest.raises(onedraw.CudaError, match="the matrix has 6 rows for 1 turns; each turn needs one"):
        batch.launch(logits)
    batch.launch(logits[0])
    assert batch.results().tokens.tolist() == [int(ROWS[0].argmax())]


def test_a_forked_process_is_told(torch: Any) -> None:
    """What a driver holds does not follow there; nobody hangs."""
    program = """
import os, onedraw
batch = onedraw.cuda.Batch(8)
if (child := os.fork()) == 0:
    assert "forked" in onedraw.cuda.why_not()
    try:
        batch.add()
    except onedraw.CudaError as error:
        os._exit(7 if "forked" in str(error) else 1)
    os._exit(2)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=120)
