"""vLLM's first runner (V1), which its CPU version uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from vllm.distributed import get_pp_group
from vllm.logger import init_logger
from vllm.v1.outputs import LogprobsTensors, SamplerOutput
from vllm.v1.sample.logits_processor import LogitBiasLogitsProcessor, MinPLogitsProcessor, MinTokensLogitsProcessor

from .._onedraw import Batch
from . import draws, reports
from .params import listed, relaxed, translated
from .requests import Request, Requests, Turn
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


class Drawing(GPUModelRunner):
    """A runner whose tokens onedraw draws."""

    _gathered: Any = None
    """The model's own function for whole rows, if its logits stay on their ranks."""

    def __init__(self, vllm_config: Any, *arguments: Any, **named: Any) -> None:
        check(super()._sample, ("logits", "spec_decode_metadata"))
        super().__init__(vllm_config, *arguments, **named)
        if self.device.type != "cpu":
            raise RuntimeError("onedraw draws on a GPU with vLLM's runner V2; set VLLM_USE_V2_MODEL_RUNNER=1, or leave `sampler` off")
        self._onedraw = Requests(Batch(threads=settings_of(vllm_config).threads))
        self._failed: dict[str, int] = {}
        # Those that the engine names, and those of installed packages.
        self._users = [processor for processor in self.input_batch.logitsprocs.all if not isinstance(processor, _DRAWN_HERE)]
        self._masks: list[Any] | None = None

    def _sample(self, logits: torch.Tensor, spec_decode_metadata: Any) -> SamplerOutput:
        # vLLM would set these back for rows that are not used, which generators of the CPU cannot do.
        self.input_batch.generators.clear()
        requests = self._followed()
        processed = self._processed(logits)
        if spec_decode_metadata is None:
            width, drawn = 1, draws.draw_each(self._onedraw, requests, processed, self._masks)
        else:
            width, turns = spec_decode_metadata.max_spec_len + 1, self._turns(requests, spec_decode_metadata)
            drawn = draws.draw(self._onedraw, turns, processed, self._masks)
        if drawn.errors:
            self._note(drawn)
        tokens = drawn.tokens(width, _NONE)
        return SamplerOutput(sampled_token_ids=tokens, logprobs_tensors=self._report(drawn, tokens, logits, processed))

    def load_model(self, *arguments: Any, **named: Any) -> None:
        super().load_model(*arguments, **named)
        settings = settings_of(self.vllm_config)
        # Other stages of a pipeline have no logits.
        if not settings.shards or not get_pp_group().is_last_rank:
            return
        from .shards import Shards, why_gathered

        why = why_gathered(self.vllm_config, self.model, self._users)
        if why is not None:
            logger.warning("onedraw: the logits are gathered, although `shards` is on: %s", why)
            return
        self._onedraw = Shards(self.model, self.model_config.get_vocab_size(), settings.threads)
        self._gathered = self.model.compute_logits

    def execute_model(self, *arguments: Any, **named: Any) -> Any:
        if self._gathered is None:
            return super().execute_model(*arguments, **named)
        # Logprobs of prompts, which are computed later, need whole rows.
        self.model.compute_logits = self.model.compute_logits_local
        try:
            return super().execute_model(*arguments, **named)
        finally:
            self.model.compute_logits = self._gathered

    def sample_tokens(self, grammar_output: Any) -> Any:
        self._failed = {}
        self._masks = None
        if grammar_output is not None and self._gathered is not None and self.execute_model_state is not None:
            self._masks, grammar_output = self._masks_of(grammar_output), None
        output = super().sample_tokens(grammar_output)
        if self._failed:
            # The scheduler ends these requests.
            output.num_nans_in_logits = {**(output.num_nans_in_logits or {}), **self._failed}
        return output

    def _masks_of(self, grammar_output: Any) -> list[Any]:
        """The mask of a grammar for each row, or None. vLLM would put masks into whole rows."""
        guesses = self.execute_model_state.scheduler_output.scheduled_spec_decode_tokens
        words, masks = grammar_output.grammar_bitmask, {}
        for name in grammar_output.structured_output_request_ids:
            count = len(guesses.get(name, ())) + 1
            masks[name], words = words[:count], words[count:]
        none = [None]
        return [mask for name in self.input_batch.req_ids for mask in masks.get(name, none * (len(guesses.get(name, ())) + 1))]

    def _followed(self) -> list[Request]:
        """The requests of the batch, brought to what they have written."""
        known, states = self._onedraw.known, self.requests
        self._onedraw.keep(states, len(states))
        requests, written = [], []
        for name in self.input_batch.req_ids:
            state, request = states[name], known.get(name)
            if request is None or request.owner is not state:
                request = self._added(name, state)
            requests.append(request)
            written.append((request, state.output_token_ids))
        self._onedraw.follow(written)
        return requests

    def _added(self, name: str, state: Any) -> Request:
        own, mode = state.sampling_params, self.model_config.logprobs_mode
        params = translated(own, mode=mode, vocabulary=self.input_batch.vocab_size, prompt=state.prompt_token_ids)
        return self._onedraw.add(name, state, params, listed=listed(own, mode), relaxed=relaxed(own, params))

    def _turns(self, requests: list[Request], metadata: Any) -> list[Turn]:
        """What each request wants, if some have guesses."""
        turns, row, place = [], 0, 0
        guesses = metadata.draft_token_ids.tolist()
        for request, count in zip(requests, metadata.num_draft_tokens, strict=True):
            own = guesses[place : place + count]
            # Nothing is guessed after a place without a guess.
            turns.append(Turn(request, row, own[: own.index(_NONE)] if _NONE in own else own))
            row, place = row + count + 1, place + count
        return turns

    def _processed(self, logits: torch.Tensor) -> torch.Tensor:
        """The logits after processors of the user, and after a budget for thinking."""
        metadata = self.input_batch.sampling_metadata
        holder = metadata.thinking_budget_state_holder
        is_budgeted = holder is not None and holder.has_tracked_requests()
        if not self._users and not is_budgeted:
            return logits
        logits = logits.to(torch.float32, copy=True)
        for processor in self._users:
            logits = processor.apply(logits)
        if is_budgeted:
            holder.update_state(metadata.output_token_ids, metadata.spec_token_ids, repeat_indices=None)
            logits = holder.apply_to_logits(logits, False, metadata.spec_token_ids)
        return logits

    def _note(self, drawn: draws.Drawn) -> None:
        """Notes the requests that cannot go on. Rows in the middle of a prompt are not used."""
        for row, error in drawn.errors.items():
            if not self.discard_request_mask.np[row]:
                name = self.input_batch.req_ids[row]
                self._failed[name] = draws.FAILED + drawn.counts[row]
                logger.error("onedraw ends request %s: %s", name, error)

    def _report(self, drawn: draws.Drawn, tokens: torch.Tensor, logits: torch.Tensor, processed: torch.Tensor) -> LogprobsTensors | None:
        """The logprobs of the tokens. If these were drawn from other logits than the model's, raw ones are vLLM's."""
        metadata = self.input_batch.sampling_metadata
        best = metadata.max_num_logprobs
        if best is None and not metadata.logprob_token_ids:
            return None
        mode, (rows, width), report = self.model_config.logprobs_mode, tokens.shape, None
        if best is not None and processed is not logits and mode.startswith("raw"):
            report = self.sampler.gather_logprobs(self._values(logits), best, tokens[:, 0].clamp(min=0).long())
        elif best is not None:
            report = reports.tensors(drawn, best, self.input_batch.vocab_size, range(0, rows * width, width), rows * width)
        if metadata.logprob_token_ids and width == 1:
            report = reports.with_scored(report, self._values(logits), metadata.logprob_token_ids, tokens[:, 0].clamp(min=0).tolist())
        return report

    def _values(self, logits: torch.Tensor) -> Any:
        """What is reported of each token of the model's logits."""
        return logits.to(torch.float32) if self.model_config.logprobs_mode.endswith("logits") else self.sampler.compute_logprobs(logits)
