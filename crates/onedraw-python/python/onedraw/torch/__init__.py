"""Logprobs over kept sets, for trainers in PyTorch.

With top-p, top-k or another truncation, a sampler draws from the kept tokens of a row, and their probabilities add up
to 1. A trainer that normalises over the whole vocabulary computes other probabilities for the same tokens, so the
ratios of trainer to sampler are not 1 even where both have the same weights. `kept_logprobs` normalises over the kept
tokens. It takes the place of `log_softmax` and `gather`:

>>> import torch
>>> from onedraw.kept import KeptSets
>>> from onedraw.torch import kept_logprobs
>>> logits = torch.tensor([[1.5, 0.2, 3.1, -4.0], [0.0, 9.0, 0.0, 0.0]], requires_grad=True)
>>> kept = KeptSets.from_ids(token_ids=[0, 2, 1], offsets=[0, 2, 3])
>>> logprobs = kept_logprobs(logits, torch.tensor([2, 1]), kept)
>>> [round(logprob, 4) for logprob in logprobs.tolist()]
[-0.1839, 0.0]
>>> logprobs.sum().backward()
>>> [round(slope, 4) for slope in logits.grad[0].tolist()]
[-0.168, 0.0, 0.168, 0.0]

Needs `pip install onedraw[torch]`. On a CUDA device it uses Triton, which comes with PyTorch there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import torch
from numpy.typing import NDArray

from . import _chunks
from ._asked import IGNORED, NO_PROBLEM, Asked, Ids, Known, error, read

try:
    from . import _triton
except ImportError:  # PyTorch for the CPU comes without it.
    _triton = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from ..kept import KeptSets

__all__ = ["IGNORED", "kept_logprobs"]

Integers: TypeAlias = torch.Tensor | NDArray[Any]
"""A list of integers."""


@overload
def kept_logprobs(
    logits: torch.Tensor, tokens: Integers, kept: KeptSets | tuple[Integers, Integers], temperature: float | torch.Tensor = 1.0,
    *, entropy: Literal[False] = False, inplace: bool = False, chunk: int | None = None,
) -> torch.Tensor: ...  # fmt: skip
@overload
def kept_logprobs(
    logits: torch.Tensor, tokens: Integers, kept: KeptSets | tuple[Integers, Integers], temperature: float | torch.Tensor = 1.0,
    *, entropy: Literal[True], inplace: bool = False, chunk: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]: ...  # fmt: skip
def kept_logprobs(
    logits: torch.Tensor,
    tokens: Integers,
    kept: KeptSets | tuple[Integers, Integers],
    temperature: float | torch.Tensor = 1.0,
    *,
    entropy: bool = False,
    inplace: bool = False,
    chunk: int | None = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """The logprob of each row's token among the row's kept tokens. With `entropy`, a pair: the logprobs and the
    entropies of the rows over their kept tokens, in nats. Both are float32, float64 for float64 logits, and
    differentiable with respect to the logits.

    `logits` are [tokens, vocabulary] in float32, bfloat16, float16 or float64, on the CPU or a CUDA device, with any
    strides: those before the temperature and before any truncation. `tokens` are the drawn tokens. A row whose token is
    `IGNORED` (-100), such as one of a prompt, has logprob and entropy 0 and no gradient; in a pair its kept set may be
    empty. `temperature` is a number, or a tensor with one for each row; it is constant for the gradient.

    `kept` are the sets of the rows: `KeptSets`, or a pair of `token_ids` and `offsets` as arrays or tensors, which may
    already be on the device; row r has `token_ids[offsets[r]:offsets[r + 1]]`, in ascending order. Ids fit to any
    logits. If there are only summaries, the logits must be those that were drawn from, bit for bit, after penalties
    and biases and before the temperature; otherwise it is an error. So ids are for trainers, whose logits differ from
    the sampler's in their last bits, and summaries for a program that samples and trains with one pass.

    ValueError names the first row that is wrong: a token outside its kept set (its probability is 0, and a ratio with it
    would be 0 too), a row that keeps nothing, ids that do not ascend or are outside the vocabulary, NaN or +inf among
    the kept logits, a drawn token whose logit is -inf, a summary of another row, a temperature that is not above 0.
    TypeError names an argument of a wrong type.

    Beside the gradient no tensor of the size of the logits is made. With `inplace` the gradient itself is written over
    the logits, which then must not be used again, neither by the caller nor by the backward pass of what computed them
    (PyTorch raises a RuntimeError if that needs them; a matrix product does not, a tanh does). A second backward pass
    through the same call raises a RuntimeError then. There is no gradient of the gradient: `create_graph` is a RuntimeError.

    On a CUDA device, Triton kernels read the kept logits and write the gradient once; with summaries they read all logits
    once, or twice if many are kept. The call waits for the device once, to know that no row is wrong, and once more for
    each argument that lies in the host's memory. On the CPU, and on a device without Triton, `chunk` rows are worked on at a time, by default about a million logits; such a device is
    waited for in each chunk.
    """
    asked = read(logits, tokens, kept, temperature, entropy=entropy, inplace=inplace, chunk=chunk)
    logprobs, entropies = _KeptLogprobs.apply(logits, asked, inplace)
    return (logprobs, entropies) if entropy else logprobs


class _KeptLogprobs(torch.autograd.Function):
    """Logprobs and entropies (None if they are not asked for) of rows, with their gradient."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, asked: Asked, inplace: bool) -> tuple[torch.Tensor, torch.Tensor | None]:
        ctx.passes = _triton if _triton is not None and _triton.runs(logits) else _chunks
        logprobs, known, report = ctx.passes.forward(logits, asked)
        if report != NO_PROBLEM:
            raise error(report, logits, asked)
        told = torch.float64 if logits.dtype == torch.float64 else torch.float32
        logprobs, entropies = logprobs.to(told), known.entropies.to(told)
        ctx.asked, ctx.sets, ctx.values, ctx.inplace, ctx.is_spent = asked, known.sets, known.values, inplace, False
        # The caller's own tensors are among them, so that PyTorch refuses a backward pass after one was changed.
        given = (asked.sets.token_ids, asked.sets.offsets) if isinstance(asked.sets, Ids) else ()
        ctx.save_for_backward(logits, entropies, known.peaks, known.log_masses, asked.tokens, asked.temperatures, *given)
        return logprobs, entropies if asked.entropy else None

    @staticmethod
    def backward(ctx: Any, logprobs: torch.Tensor, entropies: torch.Tensor | None) -> tuple[torch.Tensor, None, None]:
        if torch.is_grad_enabled():
            raise RuntimeError("kept_logprobs: there is no gradient of the gradient; use create_graph=False")
        if ctx.is_spent:
            raise RuntimeError("kept_logprobs: inplace=True wrote the gradient over the logits, so there is no second backward pass; use inplace=False for it")
        ctx.is_spent = ctx.inplace
        logits, known_entropies, peaks, log_masses, *_ = ctx.saved_tensors
        known = Known(known_entropies, peaks, log_masses, ctx.sets, ctx.values)
        gradient = logits.detach() if ctx.inplace else torch.empty_like(logits, requires_grad=False)
        ctx.passes.backward(gradient, logits.detach(), ctx.asked, known, logprobs, entropies)
        if ctx.inplace:
            # What else was kept of the logits for a backward pass is refused from now on; a kernel does not tell.
            torch.autograd.graph.increment_version(logits)
        return gradient, None, None
