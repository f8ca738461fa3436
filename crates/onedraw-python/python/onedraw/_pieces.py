"""What the tokens of a transformers tokenizer stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from ._onedraw import ModelError, Tokenizer


class Pieces:
    """The bytes that tokens add to a text."""

    known: WeakKeyDictionary[Any, Pieces] = WeakKeyDictionary()
    window = 16
    """Tokens that are decoded to learn what the last of them adds: more than a character has."""

    def __init__(self, tokenizer: Any) -> None:
        self.decode: Callable[..., str] | None = getattr(tokenizer, "decode", None)
        self.tokenizer: Tokenizer | None = None
        if getattr(tokenizer, "is_fast", False):
            try:
                self.tokenizer = Tokenizer.from_json(tokenizer.backend_tokenizer.to_str())
            except ModelError:
                pass  # A kind that onedraw does not read: its own decoder tells.

    @classmethod
    def of(cls, tokenizer: Any) -> Pieces:
        """Made once for a tokenizer: its table is read whole."""
        if tokenizer is None:
            return cls(None)
        if tokenizer not in cls.known:
            cls.known[tokenizer] = cls(tokenizer)
        return cls.known[tokenizer]

    def last(self, tokens: Sequence[int]) -> bytes:
        """Those of the last token of a text."""
        if self.tokenizer is not None:
            return self.tokenizer.bytes(tokens[-1])
        if self.decode is None:
            return b""
        ends = list(tokens[-self.window :])
        # A decoder shows a character that is not whole yet as U+FFFD at the end; it counts once it is whole.
        before, after = (self.decode(part, skip_special_tokens=True, clean_up_tokenization_spaces=False).rstrip("\ufffd") for part in (ends[:-1], ends))
        return after[len(before) :].encode()
