"""Draws over ranks whose logits are on a CUDA device, beside a batch on the CPU with the whole rows. Several ranks are in
crates/onedraw-cuda/prove-ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
from conftest import row

import onedraw

VOCABULARY = 1003
ROWS = np.stack([row(seed, VOCABULARY) for seed in range(3)])
SETTINGS: list[dict[str, Any]] = [
    {"seed": 1, "temperature": 0.8, "top_p": 0.9},
    {"seed": 2, "top_k": 40, "logprobs": 2},
    {"seed": 3, "repetition_penalty": 1.3, "frequency_penalty": 0.3},
]
EVEN = np.arange(VOCABULARY) % 2 == 0


class Alone:
    """The only rank, and where its messages were made."""

    def __init__(self, torch: Any) -> None:
        self.torch, self.batch, self.on_device = torch, onedraw.Batch(), list[bool]()

    def gather(self, message: Any, room: int) -> list[bytes]:
        self.on_device.append(not isinstance(message, bytes))
        if self.on_device[-1]:
            message = self.torch.as_tensor(message, device="cuda").cpu().numpy().tobytes()
        return [message]

    def draw(self, sequences: Any, logits: Any, masks: Any = None, ahead: int | None = None) -> Any:
        return self.batch._draw_over(sequences, logits, ahead, ranks=1, vocabulary=VOCABULARY, start=0, length=VOCABULARY, gather=self.gather, masks=masks)


def test_rows_with_and_without_masks(torch: Any) -> None:
    alone, whole = Alone(torch), onedraw.Batch()
    ids, expected_ids = ([batch.add(given) for given in SETTINGS] for batch in (alone.batch, whole))
    there = torch.tensor(ROWS, device="cuda")
    for masks in (None, [None, EVEN, None], [EVEN] * 3, None):
        assert alone.draw(ids, there, masks, ahead=0) == whole.peek(expected_ids, ROWS, masks=masks)
        assert alone.draw(ids, there, masks) == whole.sample(expected_ids, ROWS, masks=masks)
    assert [alone.batch.output(id) for id in ids] == [whole.output(id) for id in expected_ids]
    # The first messages are made there, and what else has to be asked is the host's.
    assert alone.on_device.count(True) == 8


def test_one_row(torch: Any) -> None:
    alone, whole = Alone(torch), onedraw.Batch()
    one, expected = alone.batch.add(SETTINGS[0]), whole.add(SETTINGS[0])
    there = torch.tensor(ROWS[0], device="cuda")
    for mask in (None, EVEN):
        assert alone.draw(one, there, mask) == whole.sample(expected, ROWS[0], masks=mask)
    assert alone.on_device == [True, True]


def test_what_the_device_cannot_draw_is_drawn_from_a_copy(torch: Any) -> None:
    alone, whole = Alone(torch), onedraw.Batch()
    one, expected = (batch.add(mirostat=2, seed=3) for batch in (alone.batch, whole))
    there = torch.tensor(ROWS[:1], device="cuda")
    assert alone.draw([one], there) == whole.sample([expected], ROWS[:1])
    assert not any(alone.on_device)
