"""Where `kept_logprobs` keeps its numbers: no other tensor of the size of the logits, and the gradient over the logits where that is asked for."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.peers
torch = pytest.importorskip("torch", reason="onedraw.torch needs PyTorch")

from test_torch import HAS_CUDA, IS_INTERPRETED, device, made  # noqa: E402, F401

from onedraw.torch import kept_logprobs  # noqa: E402


def test_inplace_forbids_what_needs_the_logits(device: Any) -> None:  # noqa: F811
    rows = made(device)
    arguments = (rows.tokens, rows.kept["ids"])
    leaf = rows.logits.clone().requires_grad_()
    logprobs = kept_logprobs(leaf, *arguments, inplace=True)
    logprobs.sum().backward(retain_graph=True)
    assert leaf.grad.data_ptr() == leaf.data_ptr()
    with pytest.raises(RuntimeError, match="inplace=True wrote the gradient over the logits, so there is no second backward pass"):
        logprobs.sum().backward()
    # A matrix product does not need its result, and a tanh does.
    hidden, weights = (torch.randn(*shape, device=device, requires_grad=True) for shape in ((9, 5), (5, 300)))
    kept_logprobs(hidden @ weights, *arguments, inplace=True).sum().backward()
    found, hidden.grad = hidden.grad, None
    kept_logprobs(hidden @ weights, *arguments).sum().backward()
    assert torch.allclose(found, hidden.grad, atol=1e-5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        kept_logprobs((hidden @ weights).tanh(), *arguments, inplace=True).sum().backward()
    logits = hidden @ weights
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        (kept_logprobs(logits, *arguments, inplace=True).sum() + kept_logprobs(logits, *arguments, inplace=True).sum()).backward()


@pytest.mark.parametrize("which", ["tokens", "ids", "offsets", "temperatures"])
def test_what_was_given_must_stay(device: Any, which: str) -> None:  # noqa: F811
    rows = made(device)
    given = {"tokens": rows.tokens, "ids": rows.kept["tensors"][0], "offsets": rows.kept["tensors"][1], "temperatures": rows.temperatures}
    logprobs = kept_logprobs(rows.logits.requires_grad_(), rows.tokens, rows.kept["tensors"], rows.temperatures)
    given[which].add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        logprobs.sum().backward()


class Sizes(torch.utils._python_dispatch.TorchDispatchMode):
    """Notes the storages that operations give, by address, with their bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[int, int] = {}

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        given = function(*arguments, **(options or {}))
        for one in given if isinstance(given, (tuple, list)) else [given]:
            if isinstance(one, torch.Tensor):
                self.found[one.untyped_storage().data_ptr()] = one.untyped_storage().nbytes()
        return given

    def large(self, logits: Any) -> int:
        """How many of them, beside the logits', have a twentieth of their size or more."""
        own = logits.untyped_storage()
        return sum(address != own.data_ptr() and size >= own.nbytes() / 20 for address, size in self.found.items())


@pytest.mark.parametrize("form", ["ids", "summaries"])
def test_no_other_tensor_of_that_size(form: str) -> None:
    rows = made("cpu", rows=128, counts=[1 + row % 7 for row in range(128)])

    def large(chunk: int | None, inplace: bool) -> int:
        leaf = rows.logits.clone().requires_grad_()
        with Sizes() as sizes:
            told = kept_logprobs(leaf, rows.tokens, rows.kept[form], rows.temperatures, entropy=True, inplace=inplace, chunk=chunk)
            sum(told).sum().backward()
        return sizes.large(leaf)

    # One is the gradient.
    assert (large(2, False), large(2, True)) == (1, 0)
    # The measure finds what there is: chunks of many rows with summaries, and a plain masked log-softmax.
    assert form == "ids" or IS_INTERPRETED or large(64, True) > 0
    leaf = rows.logits.clone().requires_grad_()
    with Sizes() as sizes:
        leaf.masked_fill(~rows.is_kept, -torch.inf).log_softmax(dim=1).gather(1, rows.tokens[:, None]).sum().backward()
    assert sizes.large(leaf) >= 3


@pytest.mark.skipif(not HAS_CUDA, reason="this PyTorch has no CUDA")
@pytest.mark.parametrize("form", ["tensors", "summaries"])
def test_memory_of_a_device(form: str) -> None:
    rows = made("cuda", rows=512, vocabulary=32_000, dtype=torch.bfloat16, counts=[1 + row % 50 for row in range(512)])
    for inplace in (False, True):
        leaf = rows.logits.clone().requires_grad_()
        size = leaf.nbytes
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        kept_logprobs(leaf, rows.tokens, rows.kept[form], rows.temperatures, inplace=inplace).sum().backward()
        assert torch.cuda.max_memory_allocated() - before <= (0 if inplace else size) + size // 20
