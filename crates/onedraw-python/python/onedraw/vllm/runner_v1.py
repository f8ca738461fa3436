"""vLLM's first runner (V1), which its CPU version uses."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from vllm.logger import init_logger
from vllm.v1.outputs import LogprobsTensors, SamplerOutput
from vllm.v1.sample.logits_processor import LogitBiasLogitsProcessor, MinPLogitsProcessor, MinTokensLogitsProcessor

from . import reports
from .draws import Drawn, Turn, draw
from .hooks import extend
from .params import translated
from .requests import Request, Requests
from .settings import settings_of
from .versions import check

if TYPE_CHECKING:
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner
else:
    GPUModelRunner = object

logger = init_logger(__name__)

# What onedraw does itself.
_DRAWN_HERE = (LogitBiasLogitsProcessor, MinPLogitsProcessor, MinTokensLogitsProcessor)
# The value of a place without a token.
_NONE = -1


def install(module: ModuleType) -> None:
    """Extends the runner."""
    extend(module.GPUModelRunner, Drawing)


class Drawing(GPUModelRunner):
    """A runner whose tokens onedraw draws."""

    def __init__(self, vllm_config: Any, *arguments: Any, **named: Any) -> None:
        check(super()._sample, ("logits", "spec_decode_metadata"))
        super().__init__(vllm_config, *arguments, **named)
        if self.device.type != "cpu":
            raise RuntimeError("onedraw draws on a GPU with vLLM's runner V2; set VLLM_USE_V2_MODEL_RUNNER=1, or leave `sampler` off")
        self._onedraw = Requests(settings_of(vllm_config).threads)
        self._failed: dict[str, int] = {}

    def _sample(self, logits: torch.Tensor, spec_decode_metadata: Any) -> SamplerOutput:
        batch = self.input_batch
        # vLLM would set these back for rows that are not used, which generators of the CPU cannot do.
        batch.generators.clear()
        self._onedraw.keep(self.requests, len(self.requests))
        turns = self._turns(spec_decode_metadata)
        processed = self._processed(logits)
        drawn = draw(self._onedraw, turns, processed)
        self._failed = self._failures(drawn)
        width = 1 if spec_decode_metadata is None else spec_decode_metadata.max_spec_len + 1
        tokens = torch.full((len(turns), width), _NONE, dtype=torch.int32)
        for row, (sampled, error) in enumerate(drawn):
            ids = [one.token for one in sampled] if error is None else [0]
            tokens[row, : len(ids)] = torch.tensor(ids, dtype=torch.int32)
        own = None if processed is logits else logits
        return SamplerOutput(sampled_token_ids=tokens, logprobs_tensors=self._report(drawn, tokens, logits, own))

    def sample_tokens(self, grammar_output: Any) -> Any:
        self._failed = {}
        output = super().sample_tokens(grammar_output)
        if self._failed:
            # The scheduler ends these requests.
            output.num_nans_in_logits = {**(output.num_nans_in_logits or {}), **self._failed}
        return output

    def _turns(self, metadata: Any) -> list[Turn]:
        """What each request of the batch wants."""
        names = self.input_batch.req_ids
        if metadata is None:
            return [Turn(self._request(name), row) for row, name in enumerate(names)]
        turns, row, place = [], 0, 0
        guesses = metadata.draft_token_ids.tolist()
        for name, count in zip(names, metadata.num_draft_tokens, strict=True):
            own = guesses[place : place + count]
            # No guess is made after a place without one.
            turns.append(Turn(self._request(name), row, own[: own.index(_NONE)] if _NONE in own else own))
            row, place = row + count + 1, place + count
        return turns

    def _request(self, name: str) -> Request:
        """The request of that name, brought to what it has written."""
        state = self.requests[name]
        request = self._onedraw.get(name, state)
        if request is None:
            model = self.model_config
            params = translated(state.sampling_params, mode=model.logprobs_mode, vocabulary=self.input_batch.vocab_size, prompt=state.prompt_token_ids)
            request = self._onedraw.add(name, state, params)
        self._onedraw.follow(request, state.output_token_ids)
        return request

    def _processed(self, logits: torch.Tensor) -> torch.Tensor:
        """The logits after processors of the user, and after a budget for thinking."""
        metadata = self.input_batch.sampling_metadata
        own = [processor for processor in metadata.logitsprocs.all if not isinstance(processor, _DRAWN_HERE)]
        holder = metadata.thinking_budget_state_holder
        is_budgeted = holder is not None and holder.has_tracked_requests()
        if not own and not is_budgeted:
            return logits
        logits = logits.to(torch.float32, copy=True)
        for processor in own:
            logits = processor.apply(logits)
        if is_budgeted:
            holder.update_state(metadata.output_token_ids, metadata.spec_token_ids, repeat_indices=None)
            logits = holder.apply_to_logits(logits, False, metadata.spec_token_ids)
        return logits

    def _failures(self, drawn: Sequence[Drawn]) -> dict[str, int]:
        """The requests that cannot go on."""
        failed = {}
        for row, (_, error) in enumerate(drawn):
            if error is not None and not self.discard_request_mask.np[row]:
                failed[self.input_batch.req_ids[row]] = 1
                logger.error("onedraw ends request %s: %s", self.input_batch.req_ids[row], error)
        return failed

    def _report(self, drawn: Sequence[Drawn], tokens: torch.Tensor, logits: torch.Tensor, raw: torch.Tensor | None) -> LogprobsTensors | None:
        """The logprobs of the tokens. `raw` are the model's logits, if the tokens were drawn from others."""
        metadata, mode = self.input_batch.sampling_metadata, self.model_config.logprobs_mode
        best, width = metadata.max_num_logprobs, tokens.shape[1]
        report = None
        if best is not None and raw is not None and mode.startswith("raw"):
            values = raw.to(torch.float32) if mode == "raw_logits" else self.sampler.compute_logprobs(raw)
            report = self.sampler.gather_logprobs(values, best, tokens[:, 0].long())
        elif best is not None:
            padded = [one for sampled, _ in drawn for one in [*sampled, *[None] * (width - len(sampled))]]
            report = reports.tensors(padded, best, self.input_batch.vocab_size)
        if metadata.logprob_token_ids and width == 1:
            report = reports.with_scored(report, logits if mode == "raw_logits" else self.sampler.compute_logprobs(logits), metadata.logprob_token_ids, tokens[:, 0].tolist())
        return report
