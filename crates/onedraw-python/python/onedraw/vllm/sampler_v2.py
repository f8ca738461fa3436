"""The sampler of vLLM's second runner, on the CPU."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from vllm.logger import init_logger
from vllm.v1.outputs import LogprobsTensors
from vllm.v1.worker.gpu.input_batch import InputBatch, get_num_sampled_and_rejected
from vllm.v1.worker.gpu.sample.logits_processor.interface import LogitsContext
from vllm.v1.worker.gpu.sample.output import SamplerOutput
from vllm.v1.worker.gpu.sample.sampler import Sampler

from . import reports
from .draws import Drawn, Turn, draw
from .params import translated
from .requests import Request, Requests

logger = init_logger(__name__)

# Places of a list of processors: bias, penalties and bad words, then those of the user.
_FIRST_OF_USER = 3


class HostSampler(Sampler):
    """A sampler whose tokens onedraw draws. Its parts that other parts of vLLM read are those of the sampler that it
    replaces."""

    def __init__(self, sampler: Sampler, vllm_config: Any, threads: int) -> None:
        self.__dict__.update(sampler.__dict__)
        self._requests = Requests(threads)
        self._slots: dict[int, Request | Any] = {}
        self._vocabulary = vllm_config.model_config.get_vocab_size()
        speculation = vllm_config.speculative_config
        self._width = 1 + (0 if speculation is None else speculation.num_speculative_tokens)

    def add_request(self, req_idx: int, sampling_params: Any) -> None:
        """Takes a request into a slot. Its prompt is there only at the draw."""
        self._slots[req_idx] = sampling_params
        if sampling_params.seed is not None:
            # vLLM keeps seeds in 64 bits with a sign, for drafters.
            sampling_params = copy.copy(sampling_params)
            sampling_params.seed = int(np.uint64(sampling_params.seed % 2**64).view(np.int64))
        super().add_request(req_idx, sampling_params)

    def __call__(self, logits: torch.Tensor, input_batch: InputBatch) -> SamplerOutput:
        return self.verify(logits, input_batch)

    def verify(self, logits: torch.Tensor, input_batch: InputBatch, draft_logits: Any = None, invalid_drafts: torch.Tensor | None = None) -> SamplerOutput:
        """Draws the tokens of a step, after the guesses that are right. What the drafter drew its guesses from does not
        matter."""
        if any(slot not in self._slots for slot in input_batch.idx_mapping_np.tolist()):
            # A trial run, before there are requests.
            return super().__call__(logits, input_batch)
        # Preempted requests come back: they are kept for a while.
        self._requests.keep(self.req_states.req_id_to_index, 2 * self.req_states.max_num_reqs)
        turns = self._turns(input_batch, invalid_drafts)
        processed = self._processed(logits, input_batch)
        drawn = draw(self._requests, turns, processed)
        width = self._width if input_batch.num_draft_tokens else 1
        tokens = torch.zeros((len(turns), width), dtype=torch.int64)
        for row, (sampled, _) in enumerate(drawn):
            tokens[row, : len(sampled)] = torch.tensor([one.token for one in sampled], dtype=torch.int64)
        counts = torch.tensor([max(len(sampled), 1) for sampled, _ in drawn], dtype=torch.int32)
        num_sampled, num_rejected = get_num_sampled_and_rejected(
            counts, input_batch.seq_lens, input_batch.cu_num_logits, input_batch.idx_mapping, self.req_states.prefill_len.gpu
        )
        return SamplerOutput(
            sampled_token_ids=tokens,
            logprobs_tensors=self._report(drawn, input_batch, logits, processed),
            num_nans=self._failures(drawn, input_batch),
            num_sampled=num_sampled,
            num_rejected=num_rejected,
        )

    def _turns(self, batch: InputBatch, invalid: torch.Tensor | None) -> list[Turn]:
        """What each request wants. The guess before row i + 1 is the input of that row."""
        rows = batch.logits_indices
        inputs, positions = batch.input_ids[rows], batch.positions[rows]
        local = batch.expanded_local_pos
        # Before a request has written anything, guesses are places that nothing was guessed for.
        is_none = (local > 0) & (positions - local < self.req_states.prefill_len.gpu[batch.expanded_idx_mapping])
        if invalid is not None:
            is_none = is_none | invalid
        guesses = torch.where(is_none, -1, inputs).tolist()
        turns = []
        for slot, begin, end in zip(batch.idx_mapping_np.tolist(), batch.cu_num_logits_np[:-1].tolist(), batch.cu_num_logits_np[1:].tolist(), strict=True):
            own = guesses[begin + 1 : end]
            turns.append(Turn(self._request(slot), begin, own[: own.index(-1)] if -1 in own else own))
        return turns

    def _request(self, slot: int) -> Request:
        """The request of a slot, brought to what it has written."""
        states = self.req_states
        begin = int(states.prompt_len.np[slot])
        tokens = states.all_token_ids.gpu[slot, : int(states.total_len.gpu[slot])].numpy()
        request = self._slots[slot]
        if not isinstance(request, Request):
            name = states.index_to_req_id[slot]
            params = translated(request, mode=self.logprobs_mode, vocabulary=self._vocabulary, prompt=tokens[:begin].tolist())
            request = self._slots[slot] = self._requests.find(name, params) or self._requests.add(name, params, params)
        self._requests.follow(request, tokens[begin:])
        return request

    def _processed(self, logits: torch.Tensor, batch: InputBatch) -> torch.Tensor:
        """The logits after processors of the user, and after a budget for thinking."""
        own = self.logits_processors[_FIRST_OF_USER:]
        if not own and not self.thinking_budget_state.enabled:
            return logits
        rows = batch.logits_indices
        context = LogitsContext(
            expanded_idx_mapping=batch.expanded_idx_mapping,
            idx_mapping=batch.idx_mapping,
            idx_mapping_np=batch.idx_mapping_np,
            expanded_local_pos=batch.expanded_local_pos,
            input_ids=batch.input_ids[rows],
            pos=batch.positions[rows],
            seq_lens_upper_bound_np=batch.seq_lens_cpu_upper_bound.numpy(),
        )
        logits = logits.to(torch.float32, copy=True)
        for processor in own:
            logits = processor.apply(logits, context)
        self.thinking_budget_state.apply(logits, context)
        return logits

    def _failures(self, drawn: Sequence[Drawn], batch: InputBatch) -> torch.Tensor | None:
        """Which requests cannot go on, as a count of NaNs each."""
        failed = [int(error is not None) for _, error in drawn]
        for name, (_, error) in zip(batch.req_ids, drawn, strict=True):
            if error is not None:
                logger.error("onedraw ends request %s: %s", name, error)
        return torch.tensor(failed, dtype=torch.int32) if any(failed) else None

    def _report(self, drawn: Sequence[Drawn], batch: InputBatch, logits: torch.Tensor, processed: torch.Tensor) -> LogprobsTensors | None:
        dimensions = self.get_logprobs_dims(batch.idx_mapping_np)
        if dimensions is None:
            return None
        best, _ = dimensions
        bounds = batch.cu_num_logits_np.tolist()
        lengths = [end - begin for begin, end in zip(bounds, bounds[1:], strict=False)]
        padded = [one for (sampled, _), length in zip(drawn, lengths, strict=True) for one in [*sampled, *[None] * (length - len(sampled))]]
        report = reports.tensors(padded, best, self._vocabulary)
        return report if len(padded) == len(drawn) else report._replace(cu_num_generated_tokens=bounds)
