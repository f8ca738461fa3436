"""Logits in every type and layout that can be read where it lies, and clear words for those that cannot."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from conftest import row

import onedraw

PARAMS = onedraw.SamplingParams(temperature=0.9, top_k=40, top_p=0.95, seed=11, logprobs=3)
DTYPES = {"float32": np.dtype("f4"), "float16": np.dtype("f2"), "bfloat16": np.dtype(ml_dtypes.bfloat16)}


class Capsule:
    """A tensor of some library: NumPy's capsule and nothing else of NumPy."""

    def __init__(self, array: np.ndarray, device: tuple[int, int] = (1, 0)) -> None:
        self.array, self.device, self.exported = array, device, 0

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **options: Any) -> object:
        self.exported += 1
        return self.array.__dlpack__(**options)


def expected(rows: np.ndarray) -> list[onedraw.Sampled]:
    """Each row alone, widened by NumPy beforehand: f16 and bf16 have the values of some f32."""
    return [onedraw.sample(np.ascontiguousarray(logits, dtype="f4"), PARAMS) for logits in rows]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 2, 17, 1023, 1025, 32_000])
def test_dtypes(dtype: str, size: int) -> None:
    rows = np.stack([row(seed, size) for seed in range(3)]).astype(DTYPES[dtype])
    assert list(onedraw.sample(rows, PARAMS)) == expected(rows)
    assert onedraw.sample(rows[1], PARAMS) == expected(rows)[1]


LAYOUTS = {
    "contiguous": lambda rows: rows,
    "padded": lambda rows: np.concatenate([rows, rows[:, :7] * 0 + 99], axis=1)[:, :-7],
    "offset": lambda rows: np.concatenate([rows[:, :5] * 0 + 99, rows], axis=1)[:, 5:],
    "every second": lambda rows: np.repeat(rows, 2, axis=0)[::2],
    "backwards": lambda rows: rows[::-1].copy()[::-1],
    "read-only": lambda rows: _read_only(rows.copy()),
    "of one tensor": lambda rows: np.stack([rows * 0 + 99, rows], axis=1)[:, 1],
}


def _read_only(rows: np.ndarray) -> np.ndarray:
    rows.flags.writeable = False
    return rows


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("through", ["numpy", "dlpack", "list"])
def test_layouts(dtype: str, layout: str, through: str) -> None:
    rows = np.stack([row(seed, 333) for seed in range(4)]).astype(DTYPES[dtype])
    laid: Any = LAYOUTS[layout](rows)
    assert np.array_equal(laid, rows)
    if through == "dlpack":
        if dtype == "bfloat16":
            pytest.skip("NumPy exports no bfloat16; torch and JAX do, among the peers")
        laid = Capsule(laid)
    if through == "list":
        laid = list(laid)
    assert list(onedraw.sample(laid, PARAMS)) == expected(rows)


def test_broadcast_rows_are_read_in_place() -> None:
    rows = np.broadcast_to(row(5, 100), (6, 100))
    assert rows.strides[0] == 0
    assert onedraw.sample(rows, PARAMS).tokens.tolist() == [onedraw.sample(row(5, 100), PARAMS).token] * 6


def test_nothing_is_copied() -> None:
    """Rows of 200 MB are drawn from without as much memory more; and what is written to one is seen by the next draw."""
    # A process of its own, whose peak is this call's. The largest vocabulary is 2^20: 4 MB a row, 50 rows.
    program = """
import resource, numpy as np, onedraw
rows = np.zeros((50, 1 << 20), "f4")
rows[:, 7] = 1
onedraw.sample(rows[0], temperature=0)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert onedraw.sample(rows, temperature=0).tokens.tolist() == [7] * 50
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    grown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert int(grown) < 20_000, "kilobytes: a tenth of the rows"
    rows = np.zeros((1, 100), "f4")
    sampler = onedraw.Sampler(temperature=0)
    rows[0, 9] = 2
    assert sampler.peek(rows[0]).token == 9


def test_a_tensor_is_let_go() -> None:
    tensor = Capsule(row(1, 50))
    watched = weakref.ref(tensor.array)
    onedraw.sample(tensor, PARAMS)
    assert tensor.exported == 1
    del tensor
    gc.collect()
    assert watched() is None


def test_numbers_in_a_list() -> None:
    assert onedraw.sample([0.0, 1, 2.5], temperature=0).token == 2
    assert onedraw.sample([[0.0, 1.0], [1.0, 0.0]], temperature=0).tokens.tolist() == [1, 0]
    assert onedraw.sample((0.0, 1.0), temperature=0).token == 1
    assert onedraw.sample([(0.0, 1.0), (1.0, 0.0)], temperature=0).tokens.tolist() == [1, 0]


def test_float64_is_rounded_to_float32() -> None:
    rows = np.array([[0.1, 2.3, -np.inf, 1.7], [1.0, 0.3, np.nan, 0.0]])
    rounded = rows.astype("f4")
    params = onedraw.SamplingParams(seed=3, logprobs=-1)
    for doubles in (rows[:1], Capsule(rows[:1]), np.asfortranarray(rows)[:1]):
        assert onedraw.sample(doubles, params)[0].to_json() == onedraw.sample(rounded[:1], params)[0].to_json()
    with pytest.raises(onedraw.RowsError) as raised:
        onedraw.sample(rows, params)
    assert list(raised.value.errors) == [1]
    assert onedraw.sample(rows[0], params).to_json() == onedraw.sample(rows[0].tolist(), params).to_json()


@pytest.mark.parametrize(
    ("logits", "words"),
    [
        (np.zeros(4, "i8"), "logits are float32, float16 or bfloat16, not int64; convert them with .astype('float32'), or .float() in PyTorch"),
        (np.zeros(4, "c8"), "logits are float32, float16 or bfloat16, not complex64"),
        (np.zeros(4, ">f4"), "the logits' bytes are in the order of other machines; convert them with"),
        (np.zeros((2, 2, 2), "f4"), "logits are a row [V] or rows [B, V], not a tensor of 3 dimensions"),
        (np.ma.masked_array(np.zeros(4, "f4"), [0, 0, 1, 0]), "a masked array's mask would not be seen; fill it with .filled(-numpy.inf)"),
        (np.broadcast_to(np.zeros(4), (2**40, 4)), "there are 1099511627776 rows; a call takes at most 1048576"),
        (np.broadcast_to(np.zeros(4, "f4"), (2**40, 4)), "there are 1099511627776 rows; a call takes at most 1048576"),
        (np.zeros((), "f4"), "logits are a row [V] or rows [B, V], not a tensor of 0 dimensions"),
        (np.zeros((4, 2), "f4").T, "do not lie one after the other (8 bytes apart, not 4); make them so with numpy.ascontiguousarray(logits)"),
        (np.zeros(8, "f4")[::2], "do not lie one after the other (8 bytes apart, not 4)"),
        (np.zeros(8, "f4")[::-1], "do not lie one after the other (-4 bytes apart, not 4)"),
        (np.frombuffer(bytes(17), "u1")[1:].view("f4"), "the logits do not lie at addresses that can be read; copy them with .copy()"),
        (Capsule(np.zeros(8, "f4")[::2]), "do not lie one after the other (8 bytes apart, not 4); make them so with logits.contiguous()"),
        (Capsule(np.zeros(4, "f4"), (8, 0)), "the logits are on a device (DLPack's type 8) that onedraw does not read; move them to the CPU"),
        (Capsule(np.zeros(4, "i8")), "logits are float32, float16 or bfloat16, not another type"),
        ("logits", "logits are a NumPy array, a tensor with __dlpack__ or a list of numbers, not an object of the type str"),
        (None, "not an object of the type NoneType"),
        ([1.0, "two"], "logits in a list are numbers, or rows; something else is among them"),
        ([None], "logits in a list are numbers, or rows; something else is among them"),
    ],
)
def test_what_cannot_be_read(logits: Any, words: str) -> None:
    with pytest.raises(onedraw.TensorError) as raised:
        onedraw.sample(logits, temperature=0)
    assert words in str(raised.value)
    assert isinstance(raised.value, ValueError)


def test_a_producer_that_fails_says_why() -> None:
    class Broken(Capsule):
        def __dlpack__(self, **options: Any) -> object:
            raise BufferError("the tensor requires grad; use detach()")

    with pytest.raises(onedraw.TensorError, match=r"the tensor cannot be read through DLPack: BufferError: the tensor requires grad; use detach\(\)"):
        onedraw.sample(Broken(np.zeros(4, "f4")))


def test_one_row_where_one_is_needed() -> None:
    with pytest.raises(onedraw.TensorError, match="one row of logits is needed, not 3"):
        onedraw.Sampler().sample(np.zeros((3, 4), "f4"))
    assert onedraw.Sampler(temperature=0).sample(np.array([[0, 1]], "f4")).token == 1


def test_empty_rows() -> None:
    with pytest.raises(onedraw.RowError) as raised:
        onedraw.sample(np.zeros(0, "f4"))
    assert raised.value.kind == "empty_row"
    assert len(onedraw.sample(np.zeros((0, 5), "f4"))) == 0
    with pytest.raises(onedraw.RowError, match="at most 1048576 are allowed"):
        onedraw.sample(np.zeros((1 << 20) + 1, "f2"))


def test_bad_rows_of_a_batch_carry_the_good_results() -> None:
    rows = np.stack([row(seed, 100) for seed in range(6)])
    rows[1, 3], rows[4, 0], rows[5] = np.nan, np.inf, -np.inf
    with pytest.raises(onedraw.RowsError) as raised:
        onedraw.sample(rows, PARAMS)
    error = raised.value
    assert isinstance(error, onedraw.RowError)
    assert str(error) == (
        "row 1: the logit of token 3 is NaN; logits are finite or -inf (masked); "
        "row 4: the logit of token 0 is +inf; logits are finite or -inf (masked); row 5: every logit of the row is -inf"
    )
    assert {number: bad.kind for number, bad in error.errors.items()} == {1: "nan_logit", 4: "infinite_logit", 5: "nothing_left"}
    for number, result in enumerate(error.results):
        if number in error.errors:
            assert result is error.errors[number]
        else:
            assert result == onedraw.sample(rows[number], PARAMS)
    rows[:] = np.nan
    with pytest.raises(onedraw.RowsError, match="and 3 more rows"):
        onedraw.sample(rows, PARAMS)
