"""onedraw turns a language model's logits into tokens: exact and reproducible.

One seed, one draw, everywhere: the token depends on the logits' bits, the parameters, the history, the seed
and the position, and on nothing else. Python draws the same tokens as the Rust library and the program
`onedraw`.

>>> import numpy as np
>>> import onedraw
>>> logits = np.array([1.5, 0.2, 3.1, -4.0], dtype="f4")
>>> onedraw.sample(logits, temperature=0.8, top_p=0.9, seed=42)
Sampled(token=2, seed=42, position=0)

Where to look: `sample`, `distribution` and `explain` for single calls, `Sampler` for one sequence with its
history, `Batch` for many; `SamplingParams` and `presets` for the parameters; `Edit` and `Truncation` for
stages of your own; `StopMatcher`, `Grammar`, `BeamSearch` and `Draft` for decode loops; `Generator` for texts
of a model. `audit` says whether the tokens of a text are those that are drawn. `onedraw.kept` has the kept sets of
many rows. `onedraw.cuda` draws on CUDA devices. These need extras: `onedraw.torch`, logprobs over kept sets for
training; `onedraw.transformers`, draws for models of Hugging Face's library; `onedraw.distributed`, draws over the
ranks of `torch.distributed`; `onedraw.plot`, which paints distributions.
"""

from collections.abc import Sequence as _Sequence

from . import cuda, kept, presets
from ._onedraw import (
    STREAM_VERSION,
    Audit,
    Audits,
    Batch,
    Beam,
    BeamSearch,
    Candidate,
    ConstraintError,
    Contrast,
    CudaError,
    Distribution,
    Draft,
    Edit,
    EditedRow,
    Event,
    Expansion,
    Explanation,
    Generated,
    Generator,
    Grammar,
    GrammarError,
    Guess,
    Hypothesis,
    Judgement,
    Kept,
    Matcher,
    ModelError,
    OnedrawError,
    ParamError,
    Progress,
    Report,
    RequestId,
    Rewind,
    RowError,
    RowsError,
    Runner,
    Sampled,
    Sampler,
    Samples,
    SamplingParams,
    SequenceId,
    StageEffect,
    StopMatcher,
    Stream,
    TensorError,
    Tokenizer,
    TokenLogprob,
    Truncation,
    Utf8Stream,
    Verdict,
    View,
    Vocabulary,
    __version__,
    audit,
    distribution,
    explain,
    order,
    sample,
)

__all__ = [
    "STREAM_VERSION",
    "Audit",
    "Audits",
    "Batch",
    "Beam",
    "BeamSearch",
    "Candidate",
    "ConstraintError",
    "Contrast",
    "CudaError",
    "Distribution",
    "Draft",
    "Edit",
    "EditedRow",
    "Event",
    "Expansion",
    "Explanation",
    "Generated",
    "Generator",
    "Grammar",
    "GrammarError",
    "Guess",
    "Hypothesis",
    "Judgement",
    "Kept",
    "Matcher",
    "ModelError",
    "OnedrawError",
    "ParamError",
    "Progress",
    "Report",
    "RequestId",
    "Rewind",
    "RowError",
    "RowsError",
    "Runner",
    "Sampled",
    "Sampler",
    "Samples",
    "SamplingParams",
    "SequenceId",
    "StageEffect",
    "StopMatcher",
    "Stream",
    "TensorError",
    "TokenLogprob",
    "Tokenizer",
    "Truncation",
    "Utf8Stream",
    "Verdict",
    "View",
    "Vocabulary",
    "__version__",
    "audit",
    "cuda",
    "distribution",
    "explain",
    "kept",
    "order",
    "presets",
    "sample",
]

_Sequence.register(Samples)
