"""Tensors of PyTorch and JAX, where they lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import row

import onedraw

pytestmark = pytest.mark.peers
torch = pytest.importorskip("torch")

PARAMS = onedraw.SamplingParams(temperature=0.9, top_k=40, top_p=0.95, seed=11, logprobs=3)
ROWS = np.stack([row(seed, 1025) for seed in range(4)])


def widened(rows: Any) -> list[onedraw.Sampled]:
    """Each row alone, as float32 in NumPy."""
    return [onedraw.sample(np.ascontiguousarray(np.asarray(logits, dtype="f4")), PARAMS) for logits in rows]


LAYOUTS = {
    "contiguous": lambda rows: rows,
    "padded": lambda rows: torch.nn.functional.pad(rows, (0, 5), value=99)[:, :-5],
    "offset": lambda rows: torch.nn.functional.pad(rows, (3, 0), value=99)[:, 3:],
    "every second": lambda rows: rows.repeat_interleave(2, dim=0)[::2],
    "expanded": lambda rows: rows[:1].expand(4, -1),
    "of three dimensions": lambda rows: torch.stack([rows * 0 + 99, rows], dim=1)[:, -1, :],
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_torch(dtype: Any, layout: str) -> None:
    rows = LAYOUTS[layout](torch.from_numpy(ROWS).to(dtype))
    expected = widened(rows.float().numpy())
    assert list(onedraw.sample(rows, PARAMS)) == expected
    assert onedraw.sample(rows[2], PARAMS) == expected[2]
    assert list(onedraw.sample(list(rows), PARAMS)) == expected
    batch = onedraw.Batch()
    assert list(batch.sample([batch.add(PARAMS) for _ in rows], rows)) == expected


def test_torch_is_read_in_place() -> None:
    logits = torch.zeros(100)
    sampler = onedraw.Sampler(temperature=0)
    assert sampler.peek(logits).token == 0
    logits[7] = 1
    assert sampler.peek(logits).token == 7


def test_torch_that_cannot_be_read() -> None:
    for logits, words in [
        (torch.zeros(4, dtype=torch.int64), "logits are float32, float16 or bfloat16, not int64"),
        (torch.zeros(4, 3).T, "do not lie one after the other (12 bytes apart, not 4); make them so with logits.contiguous()"),
        (torch.zeros(2, 3, 4), "logits are a row [V] or rows [B, V], not a tensor of 3 dimensions"),
        (torch.zeros(4, device="meta"), "a dense tensor on the CPU can: .detach(), .to_dense(), .cpu()"),
        (torch.zeros(4).to_sparse(), "a dense tensor on the CPU can: .detach(), .to_dense(), .cpu()"),
    ]:
        with pytest.raises(onedraw.TensorError) as raised:
            onedraw.sample(logits)
        assert words in str(raised.value)
        assert "\n" not in str(raised.value)


def test_torch_without_rows() -> None:
    batch = onedraw.Batch()
    assert len(batch.sample([], torch.zeros(0, 4))) == 0
    for empty in (torch.zeros(0), torch.zeros(3, 0)):
        with pytest.raises(onedraw.RowError) as raised:
            onedraw.sample(empty)
        assert raised.value.kind == "empty_row"


def test_torch_with_a_gradient_is_read() -> None:
    """It is only read: what it would be differentiated by does not matter."""
    logits = torch.from_numpy(ROWS[0].copy()).requires_grad_()
    try:
        sampled = onedraw.sample(logits, PARAMS)
    except onedraw.TensorError as error:
        assert "detach" in str(error)  # noqa: PT017  PyTorch before 2.10 does not export it.
    else:
        assert sampled == widened(ROWS[:1])[0]


def test_torch_for_ids_masks_and_numbers() -> None:
    params = onedraw.SamplingParams(allowed_token_ids=torch.tensor([3, 5]), temperature=torch.tensor(0.5), prompt_token_ids=torch.arange(3))
    assert params == onedraw.SamplingParams(allowed_token_ids=[3, 5], temperature=0.5, prompt_token_ids=[0, 1, 2])
    mask = torch.zeros(1025, dtype=torch.bool)
    mask[[4, 9]] = True
    assert sorted(onedraw.distribution(torch.from_numpy(ROWS[0]), mask=mask).tokens) == [4, 9]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_jax(dtype: str) -> None:
    jax = pytest.importorskip("jax")
    rows = jax.numpy.asarray(ROWS, dtype=dtype)
    expected = widened(np.asarray(rows.astype("float32")))
    assert list(onedraw.sample(rows, PARAMS)) == expected
    assert onedraw.sample(rows[1], PARAMS) == expected[1]
    # What NumPy makes of it has the dtype of ml_dtypes.
    assert list(onedraw.sample(np.asarray(rows), PARAMS)) == expected
