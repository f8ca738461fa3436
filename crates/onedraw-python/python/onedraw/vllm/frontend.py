"""The front end: what is wrong with a request is found here, where it is that request's error alone."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from vllm.exceptions import VLLMValidationError
from vllm.sampling_params import SamplingParams

from .._onedraw import OnedrawError
from .params import REFUSED, check_device, derived_seed, room, signed, translated, wrong
from .settings import settings_of
from .versions import check

if TYPE_CHECKING:
    from vllm.v1.engine.input_processor import InputProcessor
else:
    InputProcessor = object


class Checked(InputProcessor):
    """A processor of requests that checks what onedraw will be asked to do, and gives seeds to those without."""

    def __init__(self, vllm_config: Any, *arguments: Any, **named: Any) -> None:
        check(super()._validate_params, ("params", "supported_tasks"))
        self._shards = settings_of(vllm_config).shards
        self._is_on_gpu = vllm_config.device_config.device_type == "cuda"
        # As the sampler on the device has it.
        speculation, model = vllm_config.speculative_config, vllm_config.model_config
        rows = vllm_config.scheduler_config.max_num_seqs * (1 + (0 if speculation is None else speculation.num_speculative_tokens))
        self._room = room(model.max_logprobs, rows=rows, vocabulary=model.get_vocab_size())
        super().__init__(vllm_config, *arguments, **named)

    def _validate_params(self, params: Any, supported_tasks: Any) -> Any:
        has_masks = self.model_config.return_sampling_mask
        if not isinstance(params, SamplingParams) or (self.speculative_config is None and not has_masks):
            return super()._validate_params(params, supported_tasks)
        plain = copy.copy(params)
        if self.speculative_config is not None:
            # vLLM refuses these two together with guesses, because its own sampler cannot verify guesses under them.
            plain.min_p, plain.logit_bias = 0.0, None
            params._validate_logit_bias(self.model_config)
        if has_masks and params.temperature <= 0:
            # vLLM's own error would be one of the server.
            raise VLLMValidationError("temperature: must be above 0 in an engine with return_sampling_mask", parameter="temperature")
        if has_masks:
            # vLLM wants a bound for the size of its sets. Ours take the memory that they need.
            plain.top_k = max(params.top_k, 1)
        result = super()._validate_params(plain, supported_tasks)
        params.prompt_logprob_token_ids = plain.prompt_logprob_token_ids
        return result

    def process_inputs(self, request_id: str, *arguments: Any, **named: Any) -> Any:
        request = super().process_inputs(request_id, *arguments, **named)
        params, model = request.sampling_params, self.model_config
        if params is None:
            return request
        try:
            for name in REFUSED:
                if getattr(params, name):
                    raise wrong(name, "asks for another sampler than onedraw's")
            if params.logprob_token_ids and model.logprobs_mode.startswith("processed"):
                raise wrong("logprob_token_ids", "needs a raw logprobs_mode with onedraw's sampler")
            if params.thinking_token_budget is not None and (self.speculative_config is not None or self._shards):
                raise wrong("thinking_token_budget", "does not work together with guesses, or with shards, and onedraw's sampler")
            if params.logprob_token_ids and self._shards:
                raise wrong("logprob_token_ids", "needs whole rows, which shards do not gather")
            drawn = translated(params, mode=model.logprobs_mode, vocabulary=model.get_vocab_size(), masks=model.return_sampling_mask)
            drawn.check_vocabulary(model.get_vocab_size())
            if self._is_on_gpu:
                check_device(params, drawn, most=self._room, vocabulary=model.get_vocab_size())
                # These depend on which tokens of the text are neighbours. Tokens that stand for a picture are outside of
                # the vocabulary: the device's text has places for them, and the CPU's text does not.
                if any(token >= model.get_vocab_size() for token in request.prompt_token_ids or ()):
                    for name in ("penalty_window", "dry_multiplier", "no_repeat_ngram_size"):
                        if getattr(drawn, name):
                            raise wrong(name, "needs a prompt of tokens of the vocabulary alone on a GPU")
        except OnedrawError as error:
            raise VLLMValidationError(str(error), parameter=getattr(error, "field", None)) from error
        # Larger ones would end the worker that gives them to PyTorch.
        params.seed = derived_seed(request_id, model.seed) if params.seed is None else signed(params.seed)
        return request
