"""Draws on CUDA devices: the compiled part of `onedraw.cuda`, where these names have no prefix."""

from collections.abc import Iterable
from typing import Any, final, overload

from typing_extensions import CapsuleType, Self, Unpack

from ._onedraw import Sampled, Samples
from ._types import CudaMask, CudaMasks, CudaStream, Parameters, Params, SupportsDLPack, Token

def cuda_is_available(device: int = 0) -> bool: """Whether a device can draw. `why_not` says what is missing."""
def cuda_why_not(device: int = 0) -> str | None:
    """Why a device cannot draw: no driver, no such device, one that is too old; None if it can."""

@final
class CudaSequenceId:
    """Names a sequence of a `Batch`. Not used again after the sequence is removed."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class CudaArray:
    """Tokens or statuses of a step in device memory, int32, one a row: PyTorch, CuPy and others read it where it lies."""
    @property
    def shape(self) -> tuple[int]: """How many there are, as a tuple of one."""
    @property
    def device(self) -> int: """The number of the device."""
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType: ...
    def __len__(self) -> int: ...

@final
class CudaBatch:
    """Sequences on a CUDA device that come and go between steps, each with its own parameters, seed and history. A stream is by default PyTorch's current one where
    PyTorch uses CUDA, else the legacy default stream."""
    def __new__(
        cls, vocabulary: int, sequences: int = 64, *, rows: int | None = None, logprobs: int = 0, device: int = 0
    ) -> Self: ...
    def add(self, params: Params = None, **parameters: Unpack[Parameters]) -> CudaSequenceId:
        """Adds a sequence, the first of the parameters'. What only the CPU knows is a `CudaError` that names it."""
    def add_all(self, params: Params = None, **parameters: Unpack[Parameters]) -> list[CudaSequenceId]:
        """Adds all `n` sequences of the parameters, which share one seed."""
    def remove(self, sequence: CudaSequenceId) -> bool: """Removes a sequence; whether it was there."""
    @overload
    def sample(
        self, sequences: CudaSequenceId, logits: SupportsDLPack, *, masks: CudaMask | None = None, stream: CudaStream | None = None
    ) -> Sampled: """Draws a token for each sequence from its row, appends it there, and waits: `Samples`, or for one id a `Sampled`."""
    @overload
    def sample(
        self,
        sequences: Iterable[CudaSequenceId],
        logits: SupportsDLPack,
        *,
        masks: CudaMasks | None = None,
        stream: CudaStream | None = None,
    ) -> Samples: ...
    @overload
    def prepare(self, sequences: CudaSequenceId, *, masks: CudaMask | None = None, stream: CudaStream | None = None) -> None:
        """Says whose rows come next, and with which masks, until `results` has read what was drawn for them or it is called again."""
    @overload
    def prepare(
        self, sequences: Iterable[CudaSequenceId], *, masks: CudaMasks | None = None, stream: CudaStream | None = None
    ) -> None: ...
    def launch(self, logits: SupportsDLPack, *, stream: CudaStream | None = None) -> None:
        """Launches the draws of the prepared sequences and goes on: it may stand in a CUDA graph, which must not run after the batch or the tensor is gone."""
    def results(self, *, stream: CudaStream | None = None) -> Samples:
        """Waits for the stream, and gives what the last launch drew for the prepared sequences, once; a `CudaError` where nothing was launched."""
    @property
    def tokens(self) -> CudaArray: """The tokens of the last launch on the device."""
    @property
    def statuses(self) -> CudaArray:
        """How the draws of the last launch ended, on the device: 0 drawn, 1 a NaN, 2 an infinite logit, 3 nothing left."""
    @property
    def form(self) -> str: """Which kernels `launch` would launch now, as a name: a graph serves all steps of one form over one tensor."""
    def accept(self, sequence: CudaSequenceId, token: Token, *, stream: CudaStream | None = None) -> None:
        """Appends a token that was chosen elsewhere, by its id or as a `Sampled`."""
    def set_seed(self, sequence: CudaSequenceId, seed: int) -> None: """Draws go on with another seed."""
    def seed(self, sequence: CudaSequenceId) -> int: """A sequence's seed: the one given, or the one drawn from the system."""
    def position(self, sequence: CudaSequenceId) -> int: """The number of a sequence's output tokens, asked of the device."""
    @property
    def device(self) -> int: """The number of the device that it draws on."""
    def __len__(self) -> int: ...
