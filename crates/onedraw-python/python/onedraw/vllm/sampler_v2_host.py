"""The sampler of vLLM's second runner on the CPU."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from vllm.logger import init_logger
from vllm.v1.outputs import LogprobsTensors
from vllm.v1.worker.gpu.input_batch import InputBatch, get_num_sampled_and_rejected
from vllm.v1.worker.gpu.sample.output import SamplerOutput, SamplingMaskTensors
from vllm.v1.worker.gpu.sample.sampler import Sampler

from .._onedraw import Batch
from . import draws, reports
from .params import listed, relaxed, translated
from .requests import Request, Requests, Turn
from .sampler_v2 import Drawing, generated
from .versions import check

logger = init_logger(__name__)


class HostSampler(Drawing):
    """A sampler that draws on the CPU."""

    def __init__(self, sampler: Sampler, vllm_config: Any, threads: int) -> None:
        super().__init__(sampler, vllm_config)
        check(SamplingMaskTensors.to_cpu_nonblocking, ("self",))
        check(SamplingMaskTensors.tolists, ("self", "num_sampled_tokens"))
        self._requests = Requests(Batch(threads=threads))
        self._slots: dict[int, Request | Any] = {}

    def add_request(self, req_idx: int, sampling_params: Any) -> None:
        """Takes a request into a slot. Its prompt is there only at the draw."""
        self._slots[req_idx] = sampling_params
        super().add_request(req_idx, sampling_params)

    def forget(self, names: Iterable[str]) -> None:
        """Forgets requests that have ended. Others may be preempted and come back."""
        for name in names:
            self._requests.remove(name)

    def __call__(self, logits: torch.Tensor, input_batch: InputBatch) -> SamplerOutput:
        return self.verify(logits, input_batch)

    def verify(self, logits: torch.Tensor, input_batch: InputBatch, draft_logits: Any = None, invalid_drafts: torch.Tensor | None = None) -> SamplerOutput:
        """Draws the tokens of a step, after the guesses that are right. What the drafter drew its guesses from does not
        matter."""
        if self._is_trial(input_batch):
            return super().__call__(logits, input_batch)
        requests = self._followed(input_batch.idx_mapping_np.tolist())
        processed = self._processed(logits, input_batch)
        if input_batch.num_draft_tokens:
            width, drawn = self._width, draws.draw(self._requests, self._turns(requests, input_batch, invalid_drafts), processed)
        else:
            width, drawn = 1, draws.draw_each(self._requests, requests, processed)
        counts = torch.tensor([max(count, 1) for count in drawn.counts], dtype=torch.int32)
        num_sampled, num_rejected = get_num_sampled_and_rejected(
            counts, input_batch.seq_lens, input_batch.cu_num_logits, input_batch.idx_mapping, self.req_states.prefill_len.gpu
        )
        return SamplerOutput(
            sampled_token_ids=drawn.tokens(width, 0).long(),
            logprobs_tensors=self._report(drawn, input_batch, logits, processed),
            num_nans=self._failures(drawn, input_batch, num_sampled),
            num_sampled=num_sampled,
            num_rejected=num_rejected,
            sampling_mask_tensors=reports.SamplingMasks(drawn) if self.return_sampling_mask else None,
        )

    def _followed(self, slots: list[int]) -> list[Request]:
        """The requests of slots, brought to what they have written."""
        states, requests, written = self.req_states, [], []
        for slot in slots:
            begin = int(states.prompt_len.np[slot])
            tokens = states.all_token_ids.gpu[slot, : int(states.total_len.gpu[slot])].numpy()
            request = self._slots[slot]
            if not isinstance(request, Request):
                request = self._slots[slot] = self._added(states.index_to_req_id[slot], request, tokens[:begin].tolist())
            requests.append(request)
            written.append((request, tokens[begin:]))
        self._requests.follow(written)
        return requests

    def _added(self, name: str, own: Any, prompt: list[int]) -> Request:
        """A new request, or one that comes back after it was preempted."""
        params = translated(own, mode=self.logprobs_mode, vocabulary=self._vocabulary, prompt=prompt, masks=self.return_sampling_mask)
        known = self._requests.find(name, params)
        return known or self._requests.add(name, params, params, listed=listed(own, self.logprobs_mode), relaxed=relaxed(own, params))

    def _turns(self, requests: list[Request], batch: InputBatch, invalid: torch.Tensor | None) -> list[Turn]:
        """What each request wants, if some have guesses. The guess before row i + 1 is the input of that row."""
        rows = batch.logits_indices
        inputs, positions = batch.input_ids[rows], batch.positions[rows]
        local = batch.expanded_local_pos
        # Before a request has written anything, guesses are places that nothing was guessed for.
        is_none = (local > 0) & (positions - local < self.req_states.prefill_len.gpu[batch.expanded_idx_mapping])
        if invalid is not None:
            is_none = is_none | invalid
        guesses = torch.where(is_none, -1, inputs).tolist()
        bounds, turns = batch.cu_num_logits_np.tolist(), []
        for request, begin, end in zip(requests, bounds, bounds[1:], strict=False):
            own = guesses[begin + 1 : end]
            turns.append(Turn(request, begin, own[: own.index(-1)] if -1 in own else own))
        return turns

    def _failures(self, drawn: draws.Drawn, batch: InputBatch, num_sampled: torch.Tensor) -> torch.Tensor | None:
        """Which requests cannot go on, as a count of NaNs each, see `draws.FAILED`. Rows in the middle of a prompt are not used."""
        if not drawn.errors:
            return None
        failed = torch.zeros(batch.num_reqs, dtype=torch.int32)
        for row, error in drawn.errors.items():
            if num_sampled[row] > 0:
                failed[row] = draws.FAILED + drawn.counts[row]
                logger.error("onedraw ends request %s: %s", batch.req_ids[row], error)
        return failed

    def _report(self, drawn: draws.Drawn, batch: InputBatch, logits: torch.Tensor, processed: torch.Tensor) -> LogprobsTensors | None:
        """The logprobs of the tokens."""
        dimensions = self.get_logprobs_dims(batch.idx_mapping_np)
        if dimensions is None:
            return None
        best, named = dimensions
        bounds = batch.cu_num_logits_np.tolist()
        if self._is_ours(processed is not logits, named):
            report = reports.tensors(drawn, best, self._vocabulary, bounds[:-1], bounds[-1])
            return report._replace(cu_num_generated_tokens=generated(batch))
        tokens = torch.zeros(bounds[-1], dtype=torch.int64)
        tokens[drawn.places(bounds[:-1])] = torch.from_numpy(drawn.samples.tokens)
        return self._scored(logits, tokens, batch, best, named)
