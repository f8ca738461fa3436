"""What the tokens of a transformers tokenizer stand for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from ._onedraw import ModelError, Tokenizer

_tables: WeakKeyDictionary[Any, tuple[int, Tokenizer | None]] = WeakKeyDictionary()
"""onedraw's reading of a tokenizer that had so many tokens: a table is read whole, so once. It refers to nothing of the tokenizer."""


class Pieces:
    """The bytes that tokens add to a text."""

    window = 16
    """Tokens that are decoded to learn what the last of them adds: more than a character has."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.table = _table(tokenizer)

    def last(self, tokens: Sequence[int]) -> bytes:
        """Those of the last token of a text."""
        if self.table is not None:
            return self.table.bytes(tokens[-1])
        if self.tokenizer is None:
            return b""
        ends = list(tokens[-self.window :])
        # A decoder shows a character that is not whole yet as U+FFFD at the end; it counts once it is whole.
        before, after = (self._decoded(part) for part in (ends[:-1], ends))
        return after[len(before) :].encode()

    def _decoded(self, tokens: list[int]) -> str:
        text: str = self.tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text.rstrip("\ufffd")


def _table(tokenizer: Any) -> Tokenizer | None:
    """onedraw's reading of a tokenizer; None where it has none, and the tokenizer's own decoder tells."""
    if not getattr(tokenizer, "is_fast", False):
        return None
    # A tokenizer can be given more tokens.
    size = len(tokenizer)
    try:
        known = _tables.get(tokenizer)
    except TypeError:  # One that cannot be looked up.
        return _read(tokenizer)
    if known is None or known[0] != size:
        known = _tables[tokenizer] = (size, _read(tokenizer))
    return known[1]


def _read(tokenizer: Any) -> Tokenizer | None:
    try:
        return Tokenizer.from_json(tokenizer.backend_tokenizer.to_str())
    except ModelError:
        return None  # A kind that onedraw does not read.
