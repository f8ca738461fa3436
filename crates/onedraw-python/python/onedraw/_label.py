"""Tokens as readable text in a picture."""

from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias

from matplotlib.font_manager import FontProperties, findfont, get_font

from ._onedraw import Generator, Tokenizer

LONGEST = 14
"""The most characters of a label."""


class Decoder(Protocol):
    """A tokenizer of transformers, or one that is used like it."""

    def decode(self, token_ids: list[int], /) -> object: ...


Pieces: TypeAlias = Tokenizer | Generator | Decoder | Callable[[int], str]
"""What gives the text of a token."""


def labels(pieces: Pieces | None, tokens: Iterable[int]) -> list[str]:
    """The text of each token with spaces and line ends made visible, or its id if its text is not known."""
    text, can_show = _text(pieces), _can_show()
    shown = []
    for token in map(int, tokens):
        piece = text(token)
        if piece is not None and not isinstance(piece, str):
            raise TypeError(f"the text of token {token} is a str, not an object of the type {type(piece).__name__}")
        shown.append(f"#{token}" if piece is None else visible(piece, can_show))
    return shown


def visible(text: str, can_show: Callable[[str], bool] = str.isprintable) -> str:
    """A text on one line, shortened.

    >>> visible(" a\\n")
    '␣a\\\\n'
    """
    space = "␣" if can_show("␣") else "_"
    escaped = (character if can_show(character) else character.encode("unicode_escape", "surrogatepass").decode() for character in text)
    return shorten("".join(space if character == " " else character for character in escaped), LONGEST) or "(empty)"


def shorten(text: str, longest: int) -> str:
    """The beginning of a text, at most `longest` characters, with an ellipsis for those that are left out."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _text(pieces: Pieces | None) -> Callable[[int], object]:
    """A function that gives the text of a token, or None for a token without text."""
    if pieces is None:
        return lambda token: None
    if isinstance(pieces, Generator):
        return _text(pieces.tokenizer)
    if isinstance(pieces, Tokenizer):
        # Models may have more logits than their tokenizer has tokens.
        return lambda token: pieces.piece(token) if token < len(pieces) else None
    # A tokenizer of transformers can be called too, but then it takes a text.
    decode = getattr(pieces, "decode", None)
    if callable(decode):
        return lambda token: decode([token])
    if callable(pieces):
        return pieces
    raise TypeError(f"tokenizer is an onedraw.Tokenizer or Generator, one with `decode`, or a function of an id, not an object of the type {type(pieces).__name__}")


def _can_show() -> Callable[[str], bool]:
    """A function that says whether the fonts of matplotlib's settings have a character. If they do not, an
    escape says more than an empty box."""
    glyphs: set[int] = set()
    for family in FontProperties().get_family():
        try:
            glyphs.update(get_font(findfont(FontProperties(family=[family]), fallback_to_default=False)).get_charmap())
        except ValueError:
            # The family is not installed, so matplotlib uses the others.
            continue
    return lambda character: character.isprintable() and (ord(character) in glyphs or not glyphs)
