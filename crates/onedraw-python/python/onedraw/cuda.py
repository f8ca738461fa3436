"""Draws on CUDA devices: logits stay where the model wrote them, and so do the drawn tokens. The draws are
those of the CPU.

`onedraw.sample` takes a tensor on a device like any other. `Batch` holds sequences there, with their
histories. Its `sample` consists of `prepare`, `launch` and `results`; `launch` does not wait and may be
captured in a CUDA graph. The package builds and runs without CUDA: `why_not` says what is missing.

>>> import onedraw.cuda, torch
>>> batch = onedraw.cuda.Batch(vocabulary=4)
>>> logits = torch.tensor([[1.5, 0.2, 3.1, -4.0]], device="cuda")
>>> batch.prepare([batch.add(temperature=0.8, top_p=0.9, seed=42)])
>>> batch.launch(logits)
>>> torch.from_dlpack(batch.tokens).tolist()
[2]
>>> batch.results()
Samples(1 rows, tokens=[2])

A device draws for all parameters. Only a stage of your own is a `CudaError` that names it: draw such rows on
the CPU, or make the stage a `logit_bias` or a mask.
"""

from ._onedraw import CudaArray as DeviceArray
from ._onedraw import CudaBatch as Batch
from ._onedraw import CudaSequenceId as SequenceId
from ._onedraw import cuda_check as check
from ._onedraw import cuda_is_available as is_available
from ._onedraw import cuda_why_not as why_not

__all__ = ["Batch", "DeviceArray", "SequenceId", "check", "is_available", "why_not"]
