"""The scheduler: a request whose row cannot be sampled ends, and the others go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs
from vllm.v1.request import RequestStatus

from .draws import FAILED, NO_MEMORY
from .versions import check

if TYPE_CHECKING:
    from vllm.v1.core.sched.scheduler import Scheduler
else:
    Scheduler = object

REASON = "onedraw: a row of logits has a NaN or an infinity, or no token is left of it"
"""What a request that was ended says as its stop reason."""

LACK = "onedraw: the device has no memory for what this request's parameters need"
"""The same, of one that could not begin."""


class Ending(Scheduler):
    """A scheduler that ends the requests whose rows could not be sampled, which the runner reports."""

    def __init__(self, vllm_config: Any, *arguments: Any, **named: Any) -> None:
        check(super().update_from_output, ("scheduler_output", "model_runner_output"))
        super().__init__(vllm_config, *arguments, **named)

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        reported = model_runner_output.num_nans_in_logits or {}
        failed = [name for name, count in reported.items() if count > 0 and name in self.requests]
        reports = [model_runner_output.prompt_logprobs_dict, model_runner_output.prompt_token_id_logprobs_dict]
        prompts: dict[str, list[Any]] = {}
        for name in failed:
            row, sampled = model_runner_output.req_id_to_index[name], model_runner_output.sampled_token_ids
            if row < len(sampled):
                # What was drawn before the bad row. What comes after it stands for a token that there is not.
                sampled[row] = sampled[row][: reported[name] % FAILED if reported[name] >= FAILED else 0]
            if row >= len(sampled) or not sampled[row]:
                # vLLM reports nothing of a request without a token, and takes these for a mistake then.
                prompts[name] = [report.pop(name, None) for report in reports]
        outputs = super().update_from_output(scheduler_output, model_runner_output)
        # Without those that their last tokens have ended.
        for request in self.finish_requests(failed, RequestStatus.FINISHED_ERROR):
            tensors, values = prompts.get(request.request_id, (None, None))
            ended = EngineCoreOutput(
                request_id=request.request_id,
                new_token_ids=[],
                new_prompt_logprobs_tensors=tensors,
                prompt_token_id_logprobs=values,
                finish_reason=request.get_finished_reason(),
                stop_reason=LACK if reported[request.request_id] == NO_MEMORY else REASON,
                events=request.take_events(),
                trace_headers=request.trace_headers,
            )
            outputs.setdefault(request.client_index, EngineCoreOutputs()).outputs.append(ended)
        return outputs
