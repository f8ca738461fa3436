"""Draws on CUDA devices: the compiled part of `onedraw.cuda`, where these names have no prefix."""

from collections.abc import Iterable
from typing import Any, Literal, final, overload

import numpy as np
from numpy.typing import NDArray
from typing_extensions import CapsuleType, Self, Unpack

from ._decoding import Draft, Rewind, Verdict
from ._onedraw import Report, RowError, Sampled, Samples
from ._types import CudaMask, CudaMasks, CudaStream, Parameters, Params, SupportsDLPack, Token

def cuda_check(params: Params = None, **parameters: Unpack[Parameters]) -> None:
    """Checks whether a device can draw for these parameters: a `CudaError` if one of them is a stage of your own.
    No device is needed."""
def cuda_is_available(device: int = 0) -> bool:
    """Whether a device can draw. `why_not` says what is missing."""
def cuda_why_not(device: int = 0) -> str | None:
    """Why a device cannot draw: there is no driver, no such device, or it is too old. None if it can."""

@final
class CudaSequenceId:
    """Names a sequence of a `Batch`. The name of a removed sequence is not used again."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class CudaArray:
    """Tokens or statuses of a step in device memory, int32, one per row: PyTorch, CuPy and others read it in
    place."""
    @property
    def shape(self) -> tuple[int]: """The number of entries, as a tuple of one."""
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
class CudaMessage:
    """The first message of a rank in device memory, for the call that gets it: `torch.as_tensor` reads it in place."""
    @property
    def device(self) -> int: """The number of the device."""
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...

@final
class CudaBatch:
    """Sequences on a CUDA device that come and go between steps, each with its own parameters, seed and
    history. `logprobs` is the largest number that a sequence may ask for, -1 for all tokens. The default stream
    is PyTorch's current one if PyTorch uses CUDA, else the legacy default stream."""
    def __new__(
        cls, vocabulary: int, sequences: int = 64, *, rows: int | None = None, logprobs: int = 0, device: int = 0
    ) -> Self: ...
    def add(self, params: Params = None, **parameters: Unpack[Parameters]) -> CudaSequenceId:
        """Adds a sequence: the first of the `n` that the parameters ask for. A stage of
        your own is a `CudaError` that names it."""
    def add_all(self, params: Params = None, **parameters: Unpack[Parameters]) -> list[CudaSequenceId]:
        """Adds all `n` sequences that the parameters ask for. They share one seed."""
    def remove(self, sequence: CudaSequenceId) -> bool:
        """Removes a sequence. Returns whether it was there."""
    @overload
    def sample(
        self, sequences: CudaSequenceId, logits: SupportsDLPack, *, masks: CudaMask | None = None, stream: CudaStream | None = None
    ) -> Sampled:
        """Draws a token for each sequence from its row, appends it, and waits: `Samples`, or for one id a
        `Sampled`."""
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
    def peek(
        self, sequences: CudaSequenceId, logits: SupportsDLPack, *, masks: CudaMask | None = None, stream: CudaStream | None = None
    ) -> Sampled:
        """Draws a token for each sequence as `sample` does, and appends nothing."""
    @overload
    def peek(
        self,
        sequences: Iterable[CudaSequenceId],
        logits: SupportsDLPack,
        *,
        masks: CudaMasks | None = None,
        stream: CudaStream | None = None,
    ) -> Samples: ...
    @overload
    def prepare(
        self, sequences: CudaSequenceId, *, masks: CudaMask | None = None, append: bool = True, stream: CudaStream | None = None
    ) -> None:
        """Sets whose rows come next, with which masks, and whether what is drawn is appended. This holds until
        `results` has read what was drawn for them, or until the next `prepare`."""
    @overload
    def prepare(
        self,
        sequences: Iterable[CudaSequenceId],
        *,
        masks: CudaMasks | None = None,
        append: bool = True,
        stream: CudaStream | None = None,
    ) -> None: ...
    def launch(self, logits: SupportsDLPack, *, stream: CudaStream | None = None) -> None:
        """Launches the draws of the prepared sequences, and returns at once. It may be captured in a CUDA
        graph, which must not run after the batch or the tensor is freed."""
    def results(self, *, stream: CudaStream | None = None) -> Samples:
        """Waits for the stream, and returns what the last launch drew for the prepared sequences, once. A
        `CudaError` if nothing was launched."""
    @property
    def tokens(self) -> CudaArray: """The tokens of the last launch on the device."""
    @property
    def statuses(self) -> CudaArray:
        """How the draws of the last launch ended, on the device: 0 drawn, 1 a NaN, 2 an infinite logit, 3
        nothing left."""
    @property
    def form(self) -> str:
        """The name of the set of kernels that `launch` would launch now. A graph serves all steps of one form
        over one tensor."""
    def accept(self, sequence: CudaSequenceId, token: Token, *, stream: CudaStream | None = None) -> None:
        """Appends a `Sampled` that `peek` or `verify` drew at the next position, or the id of a token chosen
        elsewhere, which does not change mirostat's state."""
    def set_seed(self, sequence: CudaSequenceId, seed: int) -> None:
        """Sets another seed for the next draws."""
    def seed(self, sequence: CudaSequenceId) -> int:
        """The seed of a sequence: the given one, or one drawn from the system."""
    def position(self, sequence: CudaSequenceId) -> int:
        """The number of output tokens of a sequence, asked of the device."""
    def set_position(self, sequence: CudaSequenceId, position: int) -> None:
        """Makes the next draw that of another position. The text stays as it is."""
    def rewind(self, sequence: CudaSequenceId, length: int) -> None:
        """Takes back the tokens of a sequence after the first `length` of its output. This is an undo."""
    def take_back(self, sequence: CudaSequenceId, rewind: Rewind) -> None:
        """Takes text back because of what was drawn, as a `StopMatcher` decided."""
    def prompt_logprobs(self, sequence: CudaSequenceId, logits: SupportsDLPack, *, first: int = 1) -> list[Report | RowError]:
        """Logprobs of a sequence's prompt: row i of the matrix predicts token `first` + i. There is one entry
        per row up to the end of the prompt: a `Report`, or the `RowError` of the row."""
    def verify(
        self, sequence: CudaSequenceId, draft: Draft, logits: SupportsDLPack, *, verify: Literal["exact", "rejection", "block", "typical"] = "exact"
    ) -> Verdict:
        """Verifies a draft, as `onedraw.Batch.verify` does, and waits for the verdict. Nothing is appended."""
    @property
    def device(self) -> int: """The number of the device that it draws on."""
    def __len__(self) -> int: ...

@final
class CudaRequests:
    """The requests of an engine by the slots that it gives out. Texts, guesses and results are given by the
    addresses of tensors, which nobody checks."""
    def __new__(cls, vocabulary: int, slots: int, *, rows: int, longest: int, logprobs: int = 0, device: int = 0) -> Self: ...
    def reserve(self, params: Params) -> None:
        """Takes the memory now that rows of requests with such parameters share."""
    def add(self, slot: int, name: str, params: Params, prompt: int, *, takes_best: bool = False, stream: int = 0) -> None:
        """Puts a request into a slot, or one back that was taken away. Its text is read in its next step."""
    def forget(self, name: str) -> None: """Forgets a request that has ended."""
    def step(
        self,
        logits: tuple[int, str, int, int],
        slots: NDArray[np.intp],
        bounds: NDArray[np.int32],
        needed: NDArray[np.int32],
        texts: tuple[int, int, int],
        *,
        read_lengths: int,
        tokens: int,
        width: int,
        counts: int,
        guesses: tuple[int, NDArray[np.int32]] | None = None,
        refused: int = 0,
        listed: tuple[int, int, int, int] | None = None,
        sets: tuple[int, int, int, int] | None = None,
        stream: int = 0,
    ) -> None:
        """Draws for each slot from its rows of the logits, as long as its guesses are right, and returns at
        once."""
