"""What a draw tells beside its token: kept sets and audits. A part of `_onedraw`, for type checkers only."""

from typing import Any, ClassVar, Literal, final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from ._types import Row

@final
class EditedRow:
    """The logits of a row after all edits of a chain, as float32; -inf where a token was masked."""
    def __new__(cls, logits: Row) -> Self: ...
    @property
    def logits(self) -> NDArray[np.float32]: """The logits."""
    def __len__(self) -> int: ...

@final
class Kept:
    """The tokens that a chain kept of a row, where the parameter `kept` asks for them."""
    @property
    def count(self) -> int: """How many there are."""
    @property
    def last_token(self) -> int | None:
        """The last of them in the order; None where the set is no prefix of it."""
    @property
    def last_logit(self) -> float | None:
        """The logit of the last of them after all edits; None where the set is no prefix of the order."""
    @property
    def ln_mass(self) -> float:
        """The logarithm of their mass: of the sum of exp((x - x_max) / temperature) over them."""
    @property
    def ids(self) -> NDArray[np.uint32] | None:
        """Their ids in ascending order, where `kept` is "ids"; else None."""
    def contains(self, row: EditedRow, token: int) -> bool:
        """Whether a token is in the set, which was kept of this row. ValueError if it was kept of another."""
    def ids_of(self, row: EditedRow) -> NDArray[np.uint32]:
        """The ids of the set, which was kept of this row, in ascending order. ValueError if it was kept of another."""
    def to_dict(self) -> dict[str, Any]: """All fields by name."""
    def __len__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]

@final
class Audit:
    """A claimed token beside the one that is drawn."""
    @property
    def token(self) -> int: """The claimed token."""
    @property
    def drawn(self) -> int: """The token that is drawn."""
    @property
    def gap(self) -> float:
        """By how much the drawn token wins, in nats; 0 if it is the claimed one, or if that has the better score and was
        cut off. Infinite if the claimed one is masked."""
    @property
    def is_kept(self) -> bool: """Whether the chain keeps the claimed token."""
    @property
    def outside(self) -> float:
        """How far the claimed token is outside of what the chain keeps, in nats; 0 if it is kept."""
    @property
    def distance(self) -> float:
        """About how much the logits must change to make the claimed token the drawn one, as a difference of logits."""
    @property
    def is_drawn(self) -> bool: """Whether the claimed token is the one that is drawn."""
    def __eq__(self, other: object, /) -> bool: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]

@final
class Audits:
    """The claimed tokens of a text beside those that are drawn: a sequence of `Audit`, with their numbers as arrays."""
    @property
    def tokens(self) -> NDArray[np.int64]: """The claimed tokens, int64."""
    @property
    def drawn(self) -> NDArray[np.int64]: """The tokens that are drawn, int64."""
    @property
    def gaps(self) -> NDArray[np.float64]: """By how much the drawn tokens win, in nats; 0 where the claimed token is drawn."""
    @property
    def outside(self) -> NDArray[np.float64]:
        """How far the claimed tokens are outside of what the chain keeps, in nats; 0 where it keeps them."""
    @property
    def is_kept(self) -> NDArray[np.bool_]: """Whether the chain keeps the claimed tokens."""
    @property
    def distances(self) -> NDArray[np.float64]:
        """About how much the logits must change to make the claimed tokens the drawn ones, as differences of logits."""
    @property
    def equal(self) -> int: """How many claimed tokens are drawn."""
    def judge(self, false_alarms: float = 0.01) -> Judgement:
        """What they say in sum, by their distances. `false_alarms` is the rate at which honest text in other arithmetic may
        be called something else."""
    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Audit: ...

@final
class Judgement:
    """What the audits of a text say in sum."""
    @property
    def verdict(self) -> Literal["same", "arithmetic", "other"]:
        """The same model and sampler, the same model with other arithmetic, or something else."""
    @property
    def chance(self) -> float: """At most the chance that honest text in other arithmetic looks like this or worse."""
    @property
    def beyond(self) -> float:
        """The distance beyond which there are the most tokens too many, as a difference of logits."""
    @property
    def places(self) -> list[int]:
        """The places of the tokens farther away than that, where the verdict is "other"."""
