"""The sampler of vLLM's second runner on a CUDA device. Texts are read where vLLM keeps them, tokens stay on the device,
and the host waits for nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from vllm.logger import init_logger
from vllm.v1.outputs import LogprobsTensors
from vllm.v1.worker.gpu.input_batch import InputBatch
from vllm.v1.worker.gpu.sample.output import MAX_COMPACT_SUPPORT, SamplerOutput, SamplingMaskTensors
from vllm.v1.worker.gpu.sample.sampler import Sampler

from .._onedraw import CudaError, CudaRequests, SamplingParams
from .draws import NO_MEMORY
from .params import SHORT_LIST, listed, room, translated
from .sampler_v2 import Drawing, generated
from .versions import check

logger = init_logger(__name__)

_DTYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}


class DeviceSampler(Drawing):
    """A sampler that draws on the device."""

    def __init__(self, sampler: Sampler, vllm_config: Any) -> None:
        super().__init__(sampler, vllm_config)
        check(SamplingMaskTensors.__new__, ("_cls", "token_ids", "packed_mask", "counts", "vocab_size", "rows_per_request"))
        slots = self.req_states.max_num_reqs
        rows = slots * self._width
        logprobs = room(vllm_config.model_config.max_logprobs, rows=rows, vocabulary=self._vocabulary)
        self._requests = CudaRequests(
            self._vocabulary,
            slots,
            rows=rows,
            longest=self.req_states.all_token_ids.gpu.stride(0),
            logprobs=logprobs,
            device=self.req_states.device.index or 0,
        )
        # The memory of the engine's own options is taken before vLLM gives the rest to its cache.
        if self.return_sampling_mask:
            self._requests.reserve(SamplingParams(kept="ids"))
        if logprobs > SHORT_LIST:
            self._requests.reserve(SamplingParams(logprobs=logprobs))
        self._without_memory: set[int] = set()

    def add_request(self, req_idx: int, sampling_params: Any) -> None:
        """Takes a request into a slot. Its text is read on the device, at its next draw."""
        params = translated(sampling_params, mode=self.logprobs_mode, vocabulary=self._vocabulary, masks=self.return_sampling_mask)
        takes_best = listed(sampling_params, self.logprobs_mode) is not None
        name, prompt = self.req_states.index_to_req_id[req_idx], int(self.req_states.prompt_len.np[req_idx])
        self._without_memory.discard(req_idx)
        try:
            self._requests.add(req_idx, name, params, prompt, takes_best=takes_best, stream=self._stream())
        except CudaError as error:
            # Its parameters are known to the device, so what is missing is memory. One that needs none takes the slot.
            logger.error("onedraw ends request %s: %s", name, error)
            self._requests.add(req_idx, name, SamplingParams(temperature=0, seed=0), prompt, stream=self._stream())
            self._without_memory.add(req_idx)
        super().add_request(req_idx, sampling_params)

    def forget(self, names: Iterable[str]) -> None:
        """Forgets requests that have ended. Others may be preempted and come back."""
        for name in names:
            self._requests.forget(name)

    def __call__(self, logits: torch.Tensor, input_batch: InputBatch) -> SamplerOutput:
        return self.verify(logits, input_batch)

    def verify(self, logits: torch.Tensor, input_batch: InputBatch, draft_logits: Any = None, invalid_drafts: torch.Tensor | None = None) -> SamplerOutput:
        """Draws the tokens of a step, after the guesses that are right. What the drafter drew its guesses from does not
        matter."""
        if self._is_trial(input_batch):
            return super().__call__(logits, input_batch)
        processed = self._processed(logits, input_batch)
        # Rows may lie apart, but the logits of a row lie side by side.
        processed = processed if processed.stride(1) == 1 else processed.contiguous()
        states, turns, rows = self.req_states, input_batch.num_reqs, processed.shape[0]
        width = self._width if input_batch.num_draft_tokens else 1
        tokens = torch.empty((turns, width), dtype=torch.int64, device=processed.device)
        counts = torch.empty((3, turns), dtype=torch.int32, device=processed.device)
        dimensions = self.get_logprobs_dims(input_batch.idx_mapping_np)
        is_ours = dimensions is not None and self._is_ours(processed is not logits, dimensions[1])
        report = _report(rows, dimensions[0], processed.device) if dimensions is not None and is_ours else None
        sets = self._sets(turns, width, processed.device) if self.return_sampling_mask else None
        texts = states.all_token_ids.gpu
        self._requests.step(
            (processed.data_ptr(), _DTYPES[processed.dtype], rows, processed.stride(0)),
            input_batch.idx_mapping_np,
            input_batch.cu_num_logits_np,
            states.prefill_len.np,
            (texts.data_ptr(), texts.stride(0), states.total_len.gpu.data_ptr()),
            read_lengths=input_batch.seq_lens.data_ptr(),
            tokens=tokens.data_ptr(),
            width=width,
            counts=counts.data_ptr(),
            guesses=(input_batch.input_ids.data_ptr(), input_batch.query_start_loc_np) if width > 1 else None,
            refused=0 if invalid_drafts is None else invalid_drafts.data_ptr(),
            listed=None if report is None else (report.logprobs.shape[1] - 1, *(part.data_ptr() for part in report[:3])),
            sets=None if sets is None else (sets.token_ids.shape[1], *(part.data_ptr() for part in (sets.counts, sets.packed_mask, sets.token_ids))),
            stream=self._stream(),
        )
        lacking = [turn for turn, slot in enumerate(input_batch.idx_mapping_np.tolist()) if slot in self._without_memory] if self._without_memory else []
        if lacking:
            # Rows in the middle of a prompt are not used.
            counts[2, lacking] = counts[0, lacking] * NO_MEMORY
        if report is not None:
            report = report._replace(cu_num_generated_tokens=generated(input_batch))
        elif dimensions is not None:
            report = self._scored(logits, _each(tokens, input_batch), input_batch, *dimensions)
        return SamplerOutput(
            sampled_token_ids=tokens,
            logprobs_tensors=report,
            num_nans=counts[2],
            num_sampled=counts[0],
            num_rejected=counts[1],
            sampling_mask_tensors=sets,
        )

    def _sets(self, turns: int, width: int, device: torch.device) -> SamplingMaskTensors:
        """Room for the sets that the tokens of all turns are drawn from, as vLLM has them: small ones as ids, others as bits."""
        places, most = turns * width, min(self._vocabulary, MAX_COMPACT_SUPPORT)
        return SamplingMaskTensors(
            torch.empty((places, most), dtype=torch.int32, device=device),
            torch.empty((places, 16 * -(-self._vocabulary // 128)), dtype=torch.uint8, device=device),
            torch.empty(places, dtype=torch.int32, device=device),
            self._vocabulary,
            width,
        )

    def _stream(self) -> int:
        """The stream that vLLM works on."""
        stream: int = torch.cuda.current_stream(self.req_states.device).cuda_stream
        return stream


def _report(rows: int, best: int, device: torch.device) -> LogprobsTensors:
    """Room for the logprobs of all rows. Those without a token are not written, and nobody reads them."""
    return LogprobsTensors(
        torch.empty((rows, best + 1), dtype=torch.int32, device=device),
        torch.empty((rows, best + 1), dtype=torch.float32, device=device),
        torch.empty(rows, dtype=torch.int64, device=device),
    )


def _each(tokens: torch.Tensor, batch: InputBatch) -> torch.Tensor:
    """The token of each row: 0 for rows after the last right guess."""
    if tokens.shape[1] == 1:
        return tokens[:, 0]
    rows = batch.expanded_local_pos.shape[0]
    owners = torch.repeat_interleave(batch.cu_num_logits.diff(), output_size=rows)
    return tokens[owners, batch.expanded_local_pos.long()]
