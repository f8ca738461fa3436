"""Steps of vLLM's runner V2 without a model: its own request states, input batches and kernels around a sampler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from vllm.config import VllmConfig
from vllm.sampling_params import SamplingParams
from vllm.v1.worker.gpu.input_batch import (
    InputBatch,
    InputBuffers,
    combine_sampled_and_draft_tokens,
    expand_idx_mapping,
    post_update,
    prepare_pos_seq_lens,
    prepare_prefill_inputs,
)
from vllm.v1.worker.gpu.sample.sampler import Sampler
from vllm.v1.worker.gpu.states import RequestState

LONGEST = 512
Model = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Logits of rows, from the token and the position of each."""


@dataclass
class Part:
    """A request's part of a step."""

    name: str
    tokens: int
    """How many tokens of it the model reads, guesses among them."""
    guesses: int = 0


class Steps:
    """What a runner does in a step, but for the model."""

    def __init__(self, vocabulary: int, slots: int, device: str, guesses: int = 0, mode: str = "raw_logprobs") -> None:
        self.device, self.guesses = torch.device(device), guesses
        self.states = RequestState(slots, LONGEST, slots * LONGEST, guesses, vocabulary, self.device)
        model = SimpleNamespace(max_logprobs=20, get_vocab_size=lambda: vocabulary)
        speculation = SimpleNamespace(num_speculative_tokens=guesses) if guesses else None
        self.config = VllmConfig(reasoning_config=None, num_speculative_tokens=guesses, model_config=model, speculative_config=speculation)
        self.sampler = Sampler(self.config, slots, vocabulary, self.device, self.states, logprobs_mode=mode, num_speculative_tokens=max(guesses, 1))
        self.buffers = InputBuffers(slots, slots * LONGEST, self.device)

    def add(self, name: str, params: SamplingParams, prompt: Sequence[int], output: Sequence[int] = ()) -> None:
        """Takes a request in, or one that comes back with what it has written."""
        self.states.add_request(name, len(prompt), [*prompt, *output], 0, params.max_tokens)
        self.sampler.add_request(self.states.req_id_to_index[name], params)
        self.states.apply_staged_writes()
        self.sampler.apply_staged_writes()

    def remove(self, name: str) -> None:
        self.states.remove_request(name)

    def text(self, name: str) -> list[int]:
        """The text of a request. Waits for the device."""
        slot = self.states.req_id_to_index[name]
        return self.states.all_token_ids.gpu[slot, : int(self.states.total_len.gpu[slot])].tolist()

    def guess(self, name: str, tokens: Sequence[int]) -> None:
        """Sets the guesses of a request's next step."""
        slot = self.states.req_id_to_index[name]
        self.states.draft_tokens[slot, : len(tokens)] = torch.tensor(tokens, device=self.device)

    def batch(self, parts: Sequence[Part]) -> InputBatch:
        """The inputs of a step, as the runner prepares them."""
        states, buffers, device = self.states, self.buffers, self.device
        count, total = len(parts), sum(part.tokens for part in parts)
        slots = np.array([states.req_id_to_index[part.name] for part in parts], dtype=np.intp)
        mapping = torch.from_numpy(slots).to(device)
        rows = np.array([1 + part.guesses for part in parts])
        bounds = np.concatenate([[0], np.cumsum(rows)]).astype(np.int32)
        starts = np.concatenate([[0], np.cumsum([part.tokens for part in parts])]).astype(np.int32)
        buffers.query_start_loc[: count + 1] = torch.from_numpy(starts).to(device)
        query, device_bounds = buffers.query_start_loc[: count + 1], torch.from_numpy(bounds).to(device)
        expanded, local = expand_idx_mapping(mapping, int(bounds[-1]), device_bounds, 1 + self.guesses)
        computed = states.num_computed_tokens.gpu
        prepare_prefill_inputs(buffers.input_ids, states.next_prefill_tokens, mapping, query, states.all_token_ids.gpu, states.prefill_len.gpu, computed)
        prepare_pos_seq_lens(mapping, query, computed, buffers.positions, buffers.seq_lens)
        lengths = buffers.seq_lens[:count]
        indices = combine_sampled_and_draft_tokens(
            buffers.input_ids, mapping, states.last_sampled_tokens, query, lengths, states.prefill_len.gpu, states.draft_tokens, device_bounds, int(bounds[-1])
        )
        fields: dict[str, Any] = dict.fromkeys(InputBatch.__dataclass_fields__)
        fields |= {
            "req_ids": [part.name for part in parts],
            "num_reqs": count,
            "idx_mapping": mapping,
            "idx_mapping_np": slots,
            "expanded_idx_mapping": expanded,
            "expanded_local_pos": local,
            "num_draft_tokens": int(rows.sum()) - count,
            "query_start_loc": query,
            "query_start_loc_np": starts,
            "seq_lens": lengths,
            "seq_lens_cpu_upper_bound": torch.full((count,), LONGEST, dtype=torch.int32),
            "input_ids": buffers.input_ids[:total],
            "positions": buffers.positions[:total],
            "logits_indices": indices,
            "cu_num_logits": device_bounds,
            "cu_num_logits_np": bounds,
        }
        return InputBatch(**fields)

    def draw(self, parts: Sequence[Part], model: Model) -> Any:
        """A whole step: inputs, logits, the sampler, and what the runner does with its tokens."""
        batch, states = self.batch(parts), self.states
        logits = model(batch.input_ids[batch.logits_indices], batch.positions[batch.logits_indices])
        drawn = self.sampler(logits, batch)
        post_update(
            batch.idx_mapping,
            states.num_computed_tokens.gpu,
            states.last_sampled_tokens,
            None,
            drawn.sampled_token_ids,
            drawn.num_sampled,
            drawn.num_rejected,
            batch.query_start_loc,
            states.all_token_ids.gpu,
            states.total_len.gpu,
        )
        return drawn
