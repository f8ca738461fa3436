"""Logprobs over kept sets beside a masked log-softmax in float64: values, gradients, memory, and what is refused.

On the CPU the passes of PyTorch's operations run, and in Triton's interpreter its kernels. With a CUDA device every test
runs there too, with and without Triton."""

from __future__ import annotations

import doctest
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT

from onedraw.kept import KeptSets

pytestmark = pytest.mark.peers
torch = pytest.importorskip("torch", reason="onedraw.torch needs PyTorch")

import onedraw.torch  # noqa: E402
from onedraw.torch import IGNORED, kept_logprobs  # noqa: E402

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DTYPES = {name: getattr(torch, name) for name in ("float32", "bfloat16", "float16", "float64")}
# Of the numbers below, which are about 1: for float64 the passes' own error, else that of float32, or of rounding the gradient.
ERRORS = {"float32": 2e-6, "bfloat16": 5e-3, "float16": 6e-4, "float64": 1e-13}


HAS_CUDA = torch.cuda.is_available() and not IS_INTERPRETED


@pytest.fixture(params=["cpu", "cuda", "cuda without Triton"] if HAS_CUDA else ["cpu"])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Where the logits are."""
    if "without Triton" in request.param:
        monkeypatch.setattr(onedraw.torch, "_triton", None)
    return torch.device(request.param.split(" ")[0])


def test_there_is_a_device() -> None:
    if not HAS_CUDA:
        pytest.skip("this PyTorch has no CUDA, so no test of this file ran there")
    assert onedraw.torch._triton is not None


@dataclass
class Rows:
    """Rows with prefixes of their order as kept sets, and what is right for them."""

    logits: Any
    tokens: Any
    is_kept: Any
    temperatures: Any
    slopes: Any
    """Gradients that come from above, of logprobs and of entropies."""
    kept: dict[str, Any]
    """The sets in every form that is taken."""

    def expected(self) -> tuple[Any, Any, Any]:
        """Logprobs, entropies and the gradient of both, by a masked log-softmax in float64."""
        logits = self.logits.detach().double().clone().requires_grad_()
        scaled = (logits / self.temperatures[:, None]).masked_fill(~self.is_kept, -torch.inf)
        all_logprobs = scaled.log_softmax(dim=1)
        logprobs = all_logprobs.gather(1, self.tokens[:, None])[:, 0]
        entropies = -(all_logprobs.exp() * all_logprobs.masked_fill(~self.is_kept, 0)).sum(dim=1)
        (logprobs @ self.slopes[0] + entropies @ self.slopes[1]).backward()
        return logprobs.detach(), entropies.detach(), logits.grad


def made(device: Any, *, rows: int = 9, vocabulary: int = 300, dtype: Any = torch.float32, seed: int = 0, counts: list[int] | None = None) -> Rows:
    """Rows with ties, so that ids decide at some borders. Some sets have one token, some all."""
    random = torch.Generator().manual_seed(seed)
    logits = (3 * torch.randn(rows, vocabulary, generator=random)).mul(4).round().div(4).to(dtype)
    counts = counts or [1, vocabulary, *torch.randint(2, vocabulary, (rows,), generator=random).tolist()][:rows]
    is_kept, last, ids = torch.zeros_like(logits, dtype=torch.bool), [], []
    for row, (order, count) in enumerate(zip(logits.double().argsort(dim=1, descending=True, stable=True), counts, strict=True)):
        is_kept[row, order[:count]] = True
        last.append(int(order[count - 1]))
        ids.append(order[:count].sort().values)
    tokens = torch.tensor([int(one[torch.randint(len(one), (), generator=random)]) for one in ids])
    token_ids, offsets = torch.cat(ids), torch.tensor([0, *counts]).cumsum(0)
    border = logits[torch.arange(rows), last].float().numpy()
    summaries = KeptSets(
        token_ids=None, offsets=None, counts=np.array(counts), last_tokens=np.array(last), last_logits=border, ln_masses=np.zeros(rows)
    )  # fmt: skip
    kept = {
        "ids": KeptSets.from_ids(token_ids.numpy(), offsets.numpy()),
        "tensors": (token_ids.to(device), offsets.to(device)),
        "arrays": (token_ids.numpy().astype(np.uint16), offsets.numpy().astype(np.int32)),
        "summaries": summaries,
    }
    temperatures = 0.5 + torch.rand(rows, generator=random)
    slopes = torch.randn(2, rows, generator=random)
    moved = [tensor.to(device) for tensor in (logits, tokens, is_kept)]
    return Rows(*moved, temperatures.double().to(device), slopes.double().to(device), kept)


def check(rows: Rows, logits: Any, leaf: Any, kept: Any, **options: Any) -> None:
    """Holds logprobs, entropies and the gradient of both against what is right."""
    name = str(rows.logits.dtype).removeprefix("torch.")
    expected = rows.expected()
    told = torch.float64 if name == "float64" else torch.float32
    logprobs, entropies = kept_logprobs(logits, rows.tokens, kept, rows.temperatures, entropy=True, **options)
    assert (logprobs.dtype, entropies.dtype, logprobs.shape) == (told, told, rows.tokens.shape)
    own = 1e-13 if name == "float64" else 2e-6
    assert torch.allclose(logprobs.double(), expected[0], rtol=own, atol=own)
    assert torch.allclose(entropies.double(), expected[1], rtol=own, atol=own)
    (logprobs.double() @ rows.slopes[0] + entropies.double() @ rows.slopes[1]).backward()
    assert leaf.grad.dtype == rows.logits.dtype
    assert torch.allclose(leaf.grad.double(), expected[2], rtol=ERRORS[name], atol=ERRORS[name])
    # Outside of the sets there is nothing at all.
    assert not leaf.grad[~rows.is_kept].any()


@pytest.mark.parametrize("form", ["ids", "tensors", "arrays", "summaries"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("inplace", [False, True])
def test_values_and_gradients(device: Any, dtype: str, form: str, inplace: bool) -> None:
    for seed, chunk in enumerate([None] if IS_INTERPRETED else [None, 1, 4, 100]):
        rows = made(device, dtype=DTYPES[dtype], seed=seed)
        leaf = rows.logits.clone().requires_grad_()
        check(rows, leaf, leaf, rows.kept[form], chunk=chunk, inplace=inplace)


@pytest.mark.parametrize("form", ["tensors", "summaries"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("inplace", [False, True])
def test_sets_of_few_tokens(device: Any, dtype: str, form: str, inplace: bool) -> None:
    # So few that a device writes their ids and logits down.
    rows = made(device, dtype=DTYPES[dtype], counts=[1, 2, 3] * 3)
    leaf = rows.logits.clone().requires_grad_()
    check(rows, leaf, leaf, rows.kept[form], inplace=inplace)


@pytest.mark.parametrize("form", ["ids", "summaries"])
@pytest.mark.parametrize("inplace", [False, True])
def test_sets_larger_than_a_kernels_block(device: Any, form: str, inplace: bool) -> None:
    vocabulary = 9001 if IS_INTERPRETED else 50_257
    rows = made(device, rows=6, vocabulary=vocabulary, counts=[1, 1025, 4096, 4097, vocabulary - 1, vocabulary])
    leaf = rows.logits.clone().requires_grad_()
    check(rows, leaf, leaf, rows.kept[form], inplace=inplace)


@pytest.mark.parametrize("form", ["ids", "summaries"])
def test_one_row_of_one_token(device: Any, form: str) -> None:
    rows = made(device, rows=1, vocabulary=1, counts=[1])
    leaf = rows.logits.clone().requires_grad_()
    check(rows, leaf, leaf, rows.kept[form])


@pytest.mark.parametrize("form", ["ids", "summaries"])
@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("layout", ["rows apart", "columns apart", "transposed", "shifted"])
def test_layouts(device: Any, form: str, inplace: bool, layout: str) -> None:
    rows = made(device)
    layouts: dict[str, Callable[[Any], Any]] = {
        "rows apart": lambda logits: logits.repeat_interleave(3, dim=0)[::3],
        "columns apart": lambda logits: logits.repeat_interleave(2, dim=1)[:, ::2],
        "transposed": lambda logits: logits.T.contiguous().T,
        "shifted": lambda logits: torch.nn.functional.pad(logits, (3, 2), value=99)[:, 3:-2],
    }
    base = rows.logits.clone().requires_grad_()
    logits = layouts[layout](base)
    assert not logits.is_contiguous() and torch.equal(logits, rows.logits)
    check(rows, logits, base, rows.kept[form], inplace=inplace)


def test_expanded_rows(device: Any) -> None:
    one = made(device, rows=1, counts=[20])
    base = one.logits.clone().requires_grad_()
    ids, _ = one.kept["tensors"]
    kept = (ids.repeat(3), torch.tensor([0, 20, 40, 60]))
    logprobs = kept_logprobs(base.expand(3, -1), one.tokens.expand(3), kept)
    logprobs.sum().backward()
    alone = one.logits.clone().requires_grad_()
    kept_logprobs(alone, one.tokens, one.kept["ids"]).sum().backward()
    assert torch.allclose(base.grad, 3 * alone.grad, atol=1e-6)
    with pytest.raises(ValueError, match="inplace: rows of these logits share memory"):
        kept_logprobs(base.expand(3, -1), one.tokens.expand(3), kept, inplace=True)


def test_gradcheck(device: Any) -> None:
    rows = made(device, rows=3, vocabulary=5, dtype=torch.float64, counts=[1, 3, 5])
    # A summary is for these logits alone, and the check changes them; so the sets are ids.
    function = lambda logits: kept_logprobs(logits, rows.tokens, rows.kept["ids"], rows.temperatures, entropy=True)  # noqa: E731
    assert torch.autograd.gradcheck(function, (rows.logits.requires_grad_(),))


def test_only_one_of_both_is_used(device: Any) -> None:
    rows = made(device)
    for place in (0, 1):
        leaf = rows.logits.clone().requires_grad_()
        kept_logprobs(leaf, rows.tokens, rows.kept["ids"], rows.temperatures, entropy=True)[place].sum().backward()
        rows.slopes = torch.tensor([[1.0 - place], [float(place)]], dtype=torch.float64, device=device).expand(2, len(rows.tokens))
        assert torch.allclose(leaf.grad.double(), rows.expected()[2], atol=2e-6)
        if place == 0:
            alone = rows.logits.clone().requires_grad_()
            kept_logprobs(alone, rows.tokens, rows.kept["ids"], rows.temperatures).sum().backward()
            assert torch.equal(alone.grad, leaf.grad)


@pytest.mark.parametrize("form", ["ids", "summaries"])
def test_calls_are_repeatable_and_logits_stay(device: Any, form: str) -> None:
    rows = made(device)
    found = []
    for _ in range(2):
        leaf = rows.logits.clone().requires_grad_()
        logprobs = kept_logprobs(leaf, rows.tokens, rows.kept[form], 0.7)
        logprobs.sum().backward(retain_graph=True)
        once = leaf.grad.clone()
        logprobs.sum().backward()
        assert torch.equal(leaf.grad, 2 * once) and torch.equal(leaf.detach(), rows.logits)
        found.append((logprobs.detach(), once))
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_temperatures(device: Any) -> None:
    rows = made(device)
    same = torch.full((len(rows.tokens),), 0.7)
    given = [0.7, np.float32(0.7), torch.tensor(0.7), same, same.to(device), same.numpy()]
    found = [kept_logprobs(rows.logits, rows.tokens, rows.kept["ids"], temperature) for temperature in given]
    assert all(torch.allclose(found[0], other, atol=1e-6) for other in found)
    assert not torch.allclose(found[0], kept_logprobs(rows.logits, rows.tokens, rows.kept["ids"]), atol=0.01)


def test_without_a_gradient(device: Any) -> None:
    rows = made(device)
    before = rows.logits.clone()
    for logprobs in (
        kept_logprobs(rows.logits, rows.tokens, rows.kept["ids"], rows.temperatures, inplace=True),
        kept_logprobs(rows.logits.to(device), rows.tokens.int(), rows.kept["summaries"], rows.temperatures, inplace=True),
    ):
        assert not logprobs.requires_grad
        assert torch.allclose(logprobs.double(), rows.expected()[0], atol=2e-6)
    assert torch.equal(rows.logits, before)


@pytest.mark.parametrize("form", ["ids", "summaries"])
def test_no_rows(device: Any, form: str) -> None:
    empty = np.empty(0)
    summaries = KeptSets(token_ids=None, offsets=None, counts=empty, last_tokens=empty, last_logits=empty, ln_masses=empty)
    kept = {"ids": (torch.empty(0, dtype=torch.long), torch.zeros(1, dtype=torch.long)), "summaries": summaries}[form]
    logits = torch.empty(0, 7, device=device, requires_grad=True)
    logprobs, entropies = kept_logprobs(logits, torch.empty(0, dtype=torch.long), kept, entropy=True)
    (logprobs.sum() + entropies.sum()).backward()
    assert (logprobs.shape, entropies.shape, logits.grad.shape) == ((0,), (0,), (0, 7))


@pytest.mark.parametrize("form", ["ids", "summaries"])
@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("filled", [torch.nan, torch.inf])
def test_ignored_rows(device: Any, form: str, inplace: bool, filled: float) -> None:
    rows = made(device)
    logprobs, entropies, gradient = rows.expected()
    used = torch.arange(len(rows.tokens), device=device) % 3 != 1
    tokens = rows.tokens.masked_fill(~used, IGNORED)
    kept = rows.kept[form]
    if form == "ids":
        # Their sets may be empty.
        counts = np.where(used.cpu().numpy(), kept.counts, 0)
        kept = (kept.select(used.cpu().numpy()).token_ids, np.concatenate([[0], counts]).cumsum())
    leaf = rows.logits.masked_fill(~used[:, None], filled).requires_grad_()
    told = kept_logprobs(leaf, tokens, kept, rows.temperatures, entropy=True, inplace=inplace)
    (told[0].double() @ rows.slopes[0] + told[1].double() @ rows.slopes[1]).backward()
    for found, right in zip((*told, leaf.grad), (logprobs, entropies, gradient), strict=True):
        assert torch.allclose(found.double()[used], right[used], atol=5e-6)
        assert not found[~used].any()


def test_logits_of_minus_infinity_have_no_share(device: Any) -> None:
    logits = torch.tensor([[1.0, -torch.inf, 2.0, 0.5]], device=device, requires_grad=True)
    logprobs, entropies = kept_logprobs(logits, torch.tensor([2]), (torch.tensor([0, 1, 2]), torch.tensor([0, 3])), entropy=True)
    (logprobs + entropies).sum().backward()
    p = 1 / (1 + np.exp(-1))
    assert logprobs.tolist() == pytest.approx([np.log(p)])
    assert entropies.tolist() == pytest.approx([-p * np.log(p) - (1 - p) * np.log(1 - p)])
    slope = (1 - p) - p * (np.log(p) + entropies.item())
    assert logits.grad.tolist() == [pytest.approx([-slope, 0, slope, 0])]


def test_numbers_at_the_ends_of_a_type(device: Any) -> None:
    lowest, highest = torch.finfo(torch.float32).min, torch.finfo(torch.float32).max
    kept = (torch.tensor([0, 1, 0, 2]), torch.tensor([0, 2, 4]))
    logits = torch.tensor([[lowest, lowest, 0.0], [highest, 0.0, lowest]], device=device, requires_grad=True)
    logprobs, entropies = kept_logprobs(logits, torch.tensor([1, 0]), kept, entropy=True)
    (logprobs + entropies).sum().backward()
    assert logprobs.tolist() == pytest.approx([-np.log(2), 0])
    assert entropies.tolist() == pytest.approx([np.log(2), 0])
    assert logits.grad.tolist() == [pytest.approx([-0.5, 0.5, 0]), [0, 0, 0]]


def test_temperatures_at_the_ends_of_a_type(device: Any) -> None:
    rows = made(device, rows=2, vocabulary=5, counts=[3, 3])
    best = rows.logits.argmax(dim=1)
    for temperature, p in ((1e-320, 1), (1e-30, 1), (1e30, 1 / 3), (1e300, 1 / 3)):
        for form in ("ids", "summaries"):
            logprobs, entropies = kept_logprobs(rows.logits, best, rows.kept[form], temperature, entropy=True)
            assert logprobs.exp().tolist() == pytest.approx([p, p], abs=1e-6)
            assert entropies.tolist() == pytest.approx([-np.log(p)] * 2, abs=1e-6)


def test_a_summarys_border_is_the_order_of_the_engine(device: Any) -> None:
    # Equal logits by id, 0 and -0 equal, -inf never.
    logits = torch.tensor([[0.0, -0.0, 1.0, 0.0, -torch.inf], [-1.0, -1.0, -1.0, -torch.inf, -1.0]], device=device, requires_grad=True)
    kept = KeptSets(token_ids=None, offsets=None, counts=[3, 4], last_tokens=[1, 4], last_logits=np.array([0.0, -1.0]), ln_masses=[0.0, 0.0])
    logprobs = kept_logprobs(logits, torch.tensor([1, 0]), kept)
    logprobs.sum().backward()
    mass = 2 + np.e
    assert logprobs.tolist() == pytest.approx([-np.log(mass), -np.log(4)])
    assert logits.grad.tolist() == [pytest.approx([-1 / mass, 1 - 1 / mass, -np.e / mass, 0, 0]), pytest.approx([0.75, -0.25, -0.25, 0, -0.25])]


def test_there_is_no_gradient_of_the_gradient(device: Any) -> None:
    rows = made(device)
    leaf = rows.logits.clone().requires_grad_()
    with pytest.raises(RuntimeError, match="there is no gradient of the gradient"):
        torch.autograd.grad(kept_logprobs(leaf, rows.tokens, rows.kept["ids"]).sum(), leaf, create_graph=True)


@pytest.mark.skipif(IS_INTERPRETED, reason="this is the interpreter")
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_the_kernels_in_tritons_interpreter() -> None:
    here = Path(__file__).parent
    # NumPy warns of 0 * inf, of which the kernels take the other branch.
    options = ["-q", "-m", "peers", "-W", "ignore::RuntimeWarning", "-p", "no:cacheprovider", "-k", "not arrays and not gradcheck and not repeatable"]
    command = [sys.executable, "-m", "pytest", *options, *(here / f"test_torch{name}.py" for name in ("", "_memory", "_refused"))]
    ran = subprocess.run(command, env=os.environ | {"TRITON_INTERPRET": "1"}, text=True, capture_output=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_examples_of_the_documentation() -> None:
    tests = doctest.testmod(onedraw.torch)
    assert tests.attempted >= 8 and tests.failed == 0


def test_the_page_of_the_book_runs() -> None:
    blocks = (ROOT / "docs/src/training.md").read_text(encoding="utf-8").split("```python\n")[1:]
    assert blocks
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block.split("```")[0], names)  # noqa: S102
