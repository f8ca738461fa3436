"""What our samplers of vLLM's second runner share, wherever they draw."""

from __future__ import annotations

import copy
from typing import Any

import torch
from vllm.v1.outputs import LogprobsTensors
from vllm.v1.worker.gpu.input_batch import InputBatch
from vllm.v1.worker.gpu.sample.bad_words import BadWordsState
from vllm.v1.worker.gpu.sample.logit_bias import LogitBiasState
from vllm.v1.worker.gpu.sample.logits_processor.interface import LogitsContext
from vllm.v1.worker.gpu.sample.logprob import compute_topk_scores
from vllm.v1.worker.gpu.sample.penalties import PenaltiesState
from vllm.v1.worker.gpu.sample.sampler import Sampler

from .params import signed

# What onedraw does itself.
_DRAWN_HERE = (LogitBiasState, PenaltiesState, BadWordsState)


class Drawing(Sampler):
    """A sampler whose tokens onedraw draws. Its parts that other parts of vLLM read are those of the sampler that it
    replaces."""

    def __init__(self, sampler: Sampler, vllm_config: Any) -> None:
        self.__dict__.update(sampler.__dict__)
        self._users = [processor for processor in self.logits_processors if not isinstance(processor, _DRAWN_HERE)]
        self._vocabulary = vllm_config.model_config.get_vocab_size()
        speculation = vllm_config.speculative_config
        self._width = 1 + (0 if speculation is None else speculation.num_speculative_tokens)

    def add_request(self, req_idx: int, sampling_params: Any) -> None:
        """Takes a request into a slot."""
        if sampling_params.seed is not None:
            # vLLM keeps seeds in 64 bits with a sign, for drafters.
            sampling_params = copy.copy(sampling_params)
            sampling_params.seed = signed(sampling_params.seed)
        super().add_request(req_idx, sampling_params)

    def _is_trial(self, batch: InputBatch) -> bool:
        """Whether it is a trial run, with requests that nobody has made: it must not move those that there are."""
        known = self.req_states.req_id_to_index
        return not any(name in known for name in batch.req_ids)

    def _processed(self, logits: torch.Tensor, batch: InputBatch) -> torch.Tensor:
        """The logits after processors of the user, and after a budget for thinking."""
        if not self._users and not self.thinking_budget_state.enabled:
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
        for processor in self._users:
            logits = processor.apply(logits, context)
        self.thinking_budget_state.apply(logits, context)
        return logits

    def _is_ours(self, processed: bool, named: int) -> bool:
        """Whether logprobs are those of the draws. vLLM's are those of tokens that a request names, and raw ones if the
        tokens were drawn from other logits than the model's."""
        return self.logprobs_mode.startswith("processed") or not (processed or named)

    def _scored(self, logits: torch.Tensor, tokens: torch.Tensor, batch: InputBatch, best: int, named: int) -> LogprobsTensors:
        """vLLM's own logprobs of tokens, one for each row of the model's logits."""
        return compute_topk_scores(
            logits,
            best,
            tokens,
            generated(batch),
            logprob_token_ids_state=self.logprob_token_ids_state,
            expanded_idx_mapping=batch.expanded_idx_mapping,
            max_per_req_token_ids=named,
            logits_mode=self.logprobs_mode == "raw_logits",
        )


def generated(batch: InputBatch) -> list[int] | None:
    """Where the rows of each request begin, if requests have several."""
    return None if int(batch.cu_num_logits_np[-1]) == batch.num_reqs else batch.cu_num_logits_np.tolist()
