"""onedraw.transformers against transformers itself: the same tokens, the same scores, the same law."""

from __future__ import annotations

import copy
import math
import pickle
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import onedraw

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from transformers import LogitsProcessorList

from onedraw._memory import Memory
from onedraw.transformers import Generated, OnedrawLogitsProcessor

# One text or several: the tests know which.
generate: Any = onedraw.transformers.generate
pytestmark = pytest.mark.peers
torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

STORIES = Path(__file__).parents[3] / "models" / "stories"
PROMPTS = [[5, 17, 3], [250], [9, 9, 120, 44, 201, 7], [77, 1, 299]]
SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0},
    "warm": {"temperature": 1.3},
    "top-p": {"temperature": 0.8, "top_p": 0.9, "top_k": 40},
    "penalties": {"repetition_penalty": 1.3, "presence_penalty": 0.5, "frequency_penalty": 0.2, "no_repeat_ngram_size": 3},
    "mirostat": {"mirostat": 2, "mirostat_tau": 3.0},
    "dry": {"dry_multiplier": 0.8, "min_p": 0.05},
}


def tiny(seed: Any = 0, dtype: Any = torch.float32, scale: Any = 0.5, family: Any = transformers.LlamaConfig, **settings: Any) -> Any:
    """A random model, with weights large enough that its logits are not flat."""
    torch.manual_seed(seed)
    config = family(
        vocab_size=300, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, initializer_range=scale,
        bos_token_id=None, eos_token_id=None, pad_token_id=0, **settings,
    )
    return transformers.AutoModelForCausalLM.from_config(config).eval().to(dtype)


@pytest.fixture(scope="module")
def llama() -> Any:
    return tiny()


@pytest.fixture(scope="module")
def exact() -> Any:
    """In float64, so that as float32 the logits of one position are those of several."""
    return tiny(dtype=torch.float64)


@pytest.fixture(scope="module")
def stories() -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(STORIES, dtype=torch.float32).eval()


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return transformers.AutoTokenizer.from_pretrained(STORIES)


def theirs(model: Any, prompt: Any, **settings: Any) -> Any:
    """What transformers' own generate writes after a prompt, a list a row."""
    prompt = torch.tensor([prompt] if isinstance(prompt[0], int) else prompt)
    with torch.no_grad():
        found = model.generate(prompt, attention_mask=torch.ones_like(prompt), **{"do_sample": False, "pad_token_id": 0, "max_new_tokens": 24, **settings})
    return found[:, prompt.shape[1] :].tolist()


def with_draws(model: Any, prompt: Any, processor: Any, **settings: Any) -> Any:
    return theirs(model, prompt, logits_processor=LogitsProcessorList([processor]), **settings)


class Passes:
    """Counts a model's forward passes."""

    def __init__(self, model: Any) -> None:
        self.count, self.model = 0, model

    def __enter__(self) -> Any:
        self.hook = self.model.register_forward_hook(lambda *_: setattr(self, "count", self.count + 1))
        return self

    def __exit__(self, *_: Any) -> None:
        self.hook.remove()


class Scripted:
    """A model that has no cache and goes on as it is told; `others` are second bests."""

    device, generation_config = torch.device("cpu"), None

    def __init__(self, script: Any, others: Any = (), vocabulary: Any = 4096) -> None:
        self.script, self.others, self.vocabulary = script, others, vocabulary

    def __call__(self, input_ids: Any, **settings: Any) -> Any:
        return self.forward(input_ids, **settings)

    def forward(self, input_ids: Any, past_key_values: Any = None, use_cache: Any = True) -> Any:
        assert past_key_values is None
        logits = torch.zeros(*input_ids.shape, self.vocabulary)
        for place in range(input_ids.shape[1]):
            logits[:, place, list(self.others)] = 5.0
            logits[:, place, self.script[min(place, len(self.script) - 1)]] = 10.0
        return SimpleNamespace(logits=logits)


def assert_drawn_from(counts: Any, law: Any) -> None:
    """A chi-square test at a false alarm of one in a million; rare cells count together."""
    total = sum(counts.values())
    assert set(counts) <= {cell for cell, p in law.items() if p > 0}
    cells = [(counts[cell], p * total) for cell, p in law.items() if p * total >= 5]
    rest = (total - sum(seen for seen, _ in cells), total - sum(expected for _, expected in cells))
    if rest[1] >= 5:
        cells.append(rest)
    assert len(cells) > 3
    assert sum((seen - expected) ** 2 / expected for seen, expected in cells) < critical(len(cells) - 1)


def critical(freedom: int, z: float = 4.753424) -> float:
    """Where chi-square is passed once in a million times, by Wilson and Hilferty."""
    return freedom * math.pow(1 - 2 / (9 * freedom) + z * math.sqrt(2 / (9 * freedom)), 3)


def test_the_chi_square_tells_laws_apart() -> None:
    for freedom in (4, 10, 30, 60):
        # An even number of degrees has its tail in closed form.
        half = critical(freedom) / 2
        tail = math.exp(-half) * sum(half**power / math.factorial(power) for power in range(freedom // 2))
        assert 0.4e-6 < tail < 1.1e-6
    law = dict.fromkeys(range(5), 0.2)
    assert_drawn_from(Counter({0: 810, 1: 780, 2: 805, 3: 795, 4: 810}), law)
    with pytest.raises(AssertionError):
        assert_drawn_from(Counter({0: 1000, 1: 750, 2: 750, 3: 750, 4: 750}), law)


# Greedy and beams: token for token.


@pytest.mark.parametrize("prompt", PROMPTS)
def test_greedy_is_theirs(llama: Any, prompt: Any) -> None:
    found = generate(llama, None, prompt, temperature=0, max_tokens=24)
    assert [list(found.tokens)] == theirs(llama, prompt)
    assert (found.finish_reason, found.text, len(found.sampled)) == ("length", "", 24)


@pytest.mark.parametrize("prompt", ["Once upon a time", "The dog", "Lily and Tom went to the park. They"])
def test_greedy_stories_are_theirs_and_the_generators(stories: Any, tokenizer: Any, prompt: Any) -> None:
    found = generate(stories, tokenizer, prompt, temperature=0, max_tokens=40)
    assert [list(found.tokens)] == theirs(stories, tokenizer.encode(prompt), max_new_tokens=40)
    ours: Any = onedraw.Generator(STORIES, threads=1).generate(prompt, temperature=0, max_tokens=40)
    assert (list(found.tokens), found.text) == (ours.tokens, ours.text)


def test_seeds_draw_what_the_generator_draws(stories: Any, tokenizer: Any) -> None:
    generator: Any = onedraw.Generator(STORIES, threads=1)
    for seed in range(4):
        params = onedraw.SamplingParams(temperature=0.8, top_p=0.9, seed=seed, max_tokens=24)
        assert list(generate(stories, tokenizer, "Once upon a time", params).tokens) == generator.generate("Once upon a time", params).tokens


@pytest.mark.parametrize("beams", [2, 4])
@pytest.mark.parametrize("length_penalty", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("early_stopping", [False, True, "never"])
def test_beams_are_theirs(llama: Any, beams: Any, length_penalty: Any, early_stopping: Any) -> None:
    reasons = set()
    own = {"length_penalty": length_penalty, "early_stopping": early_stopping}
    for prompt in PROMPTS:
        # One token that greedy decoding comes to, and many, so that texts end before their time.
        for eos in ([theirs(llama, prompt)[0][5]], list(range(2, 300, 3))):
            found = generate(llama, None, prompt, beams=beams, n=2, max_tokens=12, eos_token_id=eos, **own)
            tokens = torch.tensor([prompt])
            them = llama.generate(
                tokens, attention_mask=torch.ones_like(tokens), num_beams=beams, num_return_sequences=2, max_new_tokens=12, eos_token_id=eos, pad_token_id=1,
                do_sample=False, return_dict_in_generate=True, output_scores=True, **own,
            )
            for ours, sequence, score in zip(found, them.sequences[:, len(prompt) :].tolist(), them.sequences_scores.tolist(), strict=True):
                assert list(ours.tokens) + [1] * (len(sequence) - len(ours.tokens)) == sequence
                assert ours.score == pytest.approx(score, abs=1e-4)
                assert ours.finish_reason == ("eos" if ours.tokens[-1] in eos else "length")
                reasons.add((len(eos) > 1, ours.finish_reason))
    assert (True, "eos") in reasons and (False, "length") in reasons


def test_beams_of_stories_are_theirs(stories: Any, tokenizer: Any) -> None:
    for prompt in ["Once upon a time", "The dog"]:
        found = generate(stories, tokenizer, prompt, beams=4, max_tokens=30)
        assert [list(found.tokens)] == theirs(stories, tokenizer.encode(prompt), num_beams=4, max_new_tokens=30)
        assert found.text == tokenizer.decode(found.tokens) and found.seed is None


def test_beams_know_strings(stories: Any, tokenizer: Any) -> None:
    free = generate(stories, tokenizer, "Once upon a time", beams=3, max_tokens=16).text
    assert " little" in free
    banned = generate(stories, tokenizer, "Once upon a time", beams=3, max_tokens=16, banned_strings=["little"])
    assert "little" not in banned.text and banned.finish_reason == "length"
    stopped = generate(stories, tokenizer, "Once upon a time", beams=3, max_tokens=16, stop=" named")
    assert stopped.finish_reason == "stop" and stopped.text.endswith("girl") and tokenizer.decode(stopped.tokens).endswith(" named")


# Draws: the same law.


def law_of_theirs(model: Any, texts: Any, temperature: Any, top_k: Any, top_p: Any) -> Any:
    """The probabilities that transformers' own warpers leave, a row a text."""
    warpers = transformers.generation.logits_process
    chain = [warpers.TemperatureLogitsWarper(temperature), warpers.TopKLogitsWarper(top_k), warpers.TopPLogitsWarper(top_p)]
    tokens = torch.tensor(texts)
    with torch.no_grad():
        return LogitsProcessorList(chain)(tokens, model(tokens).logits[:, -1].float()).double().softmax(-1).numpy()


def test_next_tokens_are_drawn_from_their_law(exact: Any) -> None:
    shape = {"temperature": 1.4, "top_k": 20, "top_p": 0.95}
    prompt = PROMPTS[2]
    law = dict(enumerate(law_of_theirs(exact, [prompt], **shape)[0]))
    assert 5 < sum(p > 0 for p in law.values()) <= 20
    drawn = Counter(generate(exact, None, prompt, seed=seed, max_tokens=1, **shape).tokens[0] for seed in range(4000))
    assert_drawn_from(drawn, law)
    torch.manual_seed(1)
    them = Counter(row[0] for row in theirs(exact, prompt, do_sample=True, num_return_sequences=4000, max_new_tokens=1, **shape))
    cells = [cell for cell in law if drawn[cell] + them[cell] >= 10]
    assert sum((drawn[cell] - them[cell]) ** 2 / (drawn[cell] + them[cell]) for cell in cells) < critical(len(cells))


def test_texts_of_n_are_drawn_from_their_law(exact: Any) -> None:
    shape = {"temperature": 2.0, "top_k": 8, "top_p": 0.97}
    prompt = PROMPTS[0]
    first = law_of_theirs(exact, [prompt], **shape)[0]
    begun = [token for token, p in enumerate(first) if p > 0]
    second = law_of_theirs(exact, [[*prompt, token] for token in begun], **shape)
    law = {(one, other): first[one] * p for one, row in zip(begun, second, strict=True) for other, p in enumerate(row)}
    found = generate(exact, None, prompt, seed=3, n=8000, max_tokens=2, **shape)
    assert {text.seed for text in found} == {3}
    assert_drawn_from(Counter(text.tokens for text in found), law)


# The processor.


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("do_sample", [False, True])
def test_the_processor_draws_what_generate_draws(llama: Any, setting: Any, do_sample: Any) -> None:
    for seed, prompt in enumerate(PROMPTS):
        params = onedraw.SamplingParams(seed=seed, max_tokens=24, **SETTINGS[setting])
        found = generate(llama, None, prompt, params)
        shape = {"do_sample": True, "temperature": 0.3, "top_k": 5} if do_sample else {}
        assert with_draws(llama, prompt, OnedrawLogitsProcessor(params), **shape) == [list(found.tokens)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_drawn_as_it_is(dtype: Any) -> None:
    model = tiny(dtype=dtype, scale=0.2)
    for seed in range(4):
        found = generate(model, None, PROMPTS[0], seed=seed, max_tokens=24)
        assert with_draws(model, PROMPTS[0], OnedrawLogitsProcessor(seed=seed)) == [list(found.tokens)]
    scores = torch.randn(2, 50, dtype=dtype)
    answer = OnedrawLogitsProcessor(seed=1)(torch.tensor([[1], [2]]), scores)
    assert answer.dtype == dtype and answer.argmax(-1).tolist() == onedraw.sample(scores, seed=1).tokens.tolist()


def test_probabilities_are_those_of_distribution(llama: Any) -> None:
    tokens, params = torch.tensor(PROMPTS[:1]), onedraw.SamplingParams(temperature=0.9, top_p=0.8, repetition_penalty=1.2)
    with torch.no_grad():
        scores = llama(tokens).logits[:, -1]
    answer = OnedrawLogitsProcessor(params, draw=False)(tokens, scores)
    law = onedraw.distribution(scores[0], params, prompt_token_ids=PROMPTS[0])
    assert np.array_equal(answer[0, law.tokens].numpy(), law.logprobs.astype("f4"))
    assert torch.isfinite(answer).sum() == len(law) < 300
    plain = OnedrawLogitsProcessor(draw=False, temperature=1.4, top_k=20, top_p=0.95)(tokens, scores)
    assert np.allclose(plain[0].double().exp().numpy(), law_of_theirs(llama, PROMPTS[:1], 1.4, 20, 0.95)[0], atol=1e-6)


def test_transformers_draws_from_the_probabilities(exact: Any) -> None:
    processor = OnedrawLogitsProcessor(draw=False, temperature=1.4, top_k=20, top_p=0.95)
    torch.manual_seed(2)
    drawn = Counter(row[0] for row in with_draws(exact, PROMPTS[2], processor, do_sample=True, top_k=0, num_return_sequences=4000, max_new_tokens=1))
    assert_drawn_from(drawn, dict(enumerate(law_of_theirs(exact, [PROMPTS[2]], 1.4, 20, 0.95)[0])))


class Recorder:
    """Keeps the logits of every step."""

    def __init__(self) -> None:
        self.steps: list[Any] = []

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        self.steps.append(scores.clone())
        return scores


def test_rows_are_the_sequences_of_n(llama: Any) -> None:
    params, recorder = onedraw.SamplingParams(seed=11, n=3, repetition_penalty=1.2, temperature=1.2), Recorder()
    prompts = [PROMPTS[0], PROMPTS[3]]
    processors = LogitsProcessorList([recorder, OnedrawLogitsProcessor(params)])
    rows = theirs(llama, prompts, do_sample=True, num_return_sequences=3, logits_processor=processors)
    samplers = [sampler for prompt in prompts for sampler in onedraw.Sampler.sequences(params, prompt_token_ids=prompt)]
    assert rows == [[sampler.sample(step[row]).token for step in recorder.steps] for row, sampler in enumerate(samplers)]
    assert len({tuple(row) for row in rows}) == 6
    assert rows[:3] == [list(text.tokens) for text in generate(llama, None, prompts[0], params.replace(max_tokens=24))]


def test_a_row_does_not_depend_on_its_place(exact: Any) -> None:
    prompts = [[5, 17, 3], [77, 1, 299], [8, 8, 9]]
    rows = with_draws(exact, prompts, OnedrawLogitsProcessor(seed=4))
    assert [with_draws(exact, prompt, OnedrawLogitsProcessor(seed=4))[0] for prompt in prompts] == rows
    assert with_draws(exact, prompts[::-1], OnedrawLogitsProcessor(seed=4)) == rows[::-1]
    each = [onedraw.SamplingParams(seed=seed, temperature=1 + seed / 10) for seed in range(3)]
    own = [list(generate(exact, None, prompt, params.replace(max_tokens=24)).tokens) for prompt, params in zip(prompts, each, strict=True)]
    assert with_draws(exact, prompts, OnedrawLogitsProcessor(each)) == own


def test_a_processor_is_used_again(llama: Any) -> None:
    processor = OnedrawLogitsProcessor(seed=9, repetition_penalty=1.5)
    first = with_draws(llama, PROMPTS[0], processor)
    other = with_draws(llama, PROMPTS[1], processor)
    assert other == with_draws(llama, PROMPTS[1], OnedrawLogitsProcessor(seed=9, repetition_penalty=1.5)) != first
    assert with_draws(llama, PROMPTS[0], processor) == first
    # What follows what was seen is the same text; after a reset it is a prompt.
    text = PROMPTS[0] + first[0]
    onward = with_draws(llama, text, processor, max_new_tokens=6)
    assert onward == [with_draws(llama, PROMPTS[0], OnedrawLogitsProcessor(seed=9, repetition_penalty=1.5), max_new_tokens=30)[0][24:]]
    processor.reset()
    anew = with_draws(llama, text, processor, max_new_tokens=6)
    assert anew == with_draws(llama, text, OnedrawLogitsProcessor(seed=9, repetition_penalty=1.5), max_new_tokens=6)
    # Without a seed every generation has another.
    unseeded = OnedrawLogitsProcessor(temperature=2.0)
    assert with_draws(llama, PROMPTS[0], unseeded) != with_draws(llama, PROMPTS[0], unseeded)


def test_histories_follow_beams(llama: Any) -> None:
    """A beam that changes places takes its penalties along; their normalized scores are ours."""
    shape = {"num_beams": 4, "num_return_sequences": 2, "max_new_tokens": 16}
    for prompt in PROMPTS:
        them = theirs(llama, prompt, repetition_penalty=1.4, renormalize_logits=True, **shape)
        assert with_draws(llama, prompt, OnedrawLogitsProcessor(draw=False, repetition_penalty=1.4), **shape) == them


def test_histories_follow_assisted_generation(exact: Any) -> None:
    """transformers' own assistant tries tokens and goes back: the draws are those of plain generation."""
    for seed in range(3):
        params = onedraw.SamplingParams(seed=seed, repetition_penalty=1.2, max_tokens=24)
        plain = generate(exact, None, PROMPTS[0], params)
        for assistant in (tiny(1, torch.float64), copy.deepcopy(exact)):
            assert with_draws(exact, PROMPTS[0], OnedrawLogitsProcessor(params), assistant_model=assistant) == [list(plain.tokens)]


# Guesses of a draft model change no token.


@pytest.fixture(scope="module")
def near(exact: Any) -> Any:
    """A drafter that is often right."""
    torch.manual_seed(5)
    drafter = copy.deepcopy(exact)
    with torch.no_grad():
        for weights in drafter.parameters():
            weights += 0.02 * torch.randn_like(weights)
    return drafter


@pytest.mark.parametrize("setting", SETTINGS)
def test_guesses_change_no_token(exact: Any, near: Any, setting: Any) -> None:
    other = tiny(1, torch.float64)
    passes, count = 0, 0
    for seed in range(6):
        params = onedraw.SamplingParams(seed=seed, max_tokens=23, logprobs=2, **SETTINGS[setting])
        plain = generate(exact, None, PROMPTS[seed % 4], params)
        for drafter in (other, near):
            with Passes(exact) as counted:
                found = generate(exact, None, PROMPTS[seed % 4], params, draft_model=drafter, draft_tokens=3)
            assert (found.tokens, found.finish_reason) == (plain.tokens, plain.finish_reason)
            assert [sampled.logprob for sampled in found.sampled] == pytest.approx([sampled.logprob for sampled in plain.sampled], abs=1e-6)
            if drafter is near:
                passes, count = passes + counted.count, count + 1
    assert 6 < passes / count < 23


def test_guesses_that_hold_save_passes(exact: Any) -> None:
    twin = copy.deepcopy(exact)
    for seed in range(3):
        with Passes(exact) as plain:
            expected = generate(exact, None, PROMPTS[0], seed=seed, max_tokens=40)
        with Passes(exact) as assisted:
            found = generate(exact, None, PROMPTS[0], seed=seed, max_tokens=40, draft_model=twin, draft_tokens=4)
        # Each pass brings the four guesses and the token after them.
        assert (found.tokens, plain.count, assisted.count) == (expected.tokens, 40, 8)
    with Passes(twin) as drafted:
        generate(exact, None, PROMPTS[0], max_tokens=1, draft_model=twin)
    assert drafted.count == 0


def test_guesses_with_ends_and_n(stories: Any, tokenizer: Any) -> None:
    drafter = transformers.AutoModelForCausalLM.from_pretrained(STORIES / "drafter", dtype=torch.float32).eval()
    settings: list[dict[str, Any]] = [{"stop": [" named"]}, {"banned_strings": ["little girl", " happy"]}, {"n": 3, "top_p": 0.9}, {"max_tokens": 1}]
    for own in settings:
        own = {"seed": 7, "temperature": 0.7, "max_tokens": 40, **own}
        plain = generate(stories, tokenizer, "Once upon a time", **own)
        found = generate(stories, tokenizer, "Once upon a time", draft_model=drafter, **own)
        assert found == plain


def test_a_memory_reads_whatever_text_comes(exact: Any) -> None:
    memory = Memory(exact)
    with torch.inference_mode():
        for text, count in [([5, 6, 7], 1), ([5, 6, 7, 8], 2), ([5, 9, 7, 8, 1], 1), ([5, 9], 1), ([5, 9], 2), ([4], 1), ([4, 4, 4, 4], 3)]:
            assert torch.allclose(memory.logits([text], count), exact(torch.tensor([text])).logits[:, -count:].float(), atol=1e-5)
        memory.follow([0, 0])
        rows = memory.logits([[4, 4, 4, 4, 1], [4, 4, 4, 2, 2]])
        assert torch.allclose(rows, exact(torch.tensor([[4, 4, 4, 4, 1], [4, 4, 4, 2, 2]])).logits[:, -1:].float(), atol=1e-5)


def test_caches_that_cannot_go_back() -> None:
    """A window that has slid on cannot be cropped, and a model without a cache has none: the text is read again."""
    model = tiny(dtype=torch.float64, family=transformers.MistralConfig, sliding_window=6)
    other = tiny(1, torch.float64)
    for seed in range(3):
        plain = generate(model, None, PROMPTS[2], seed=seed, max_tokens=20)
        assert with_draws(model, PROMPTS[2], OnedrawLogitsProcessor(seed=seed), max_new_tokens=20) == [list(plain.tokens)]
        assert generate(model, None, PROMPTS[2], seed=seed, max_tokens=20, draft_model=other) == plain
    script = [3, 1, 4, 1, 5, 9, 2, 6]
    assert generate(Scripted(script), None, [0], temperature=0, max_tokens=8).tokens == tuple(script)
    assert generate(Scripted(script), None, [0], temperature=0, max_tokens=8, draft_model=Scripted([3, 1, 4, 2])).tokens == tuple(script)


# Ends, strings and reports.


def test_texts_end(stories: Any, tokenizer: Any) -> None:
    def write(**own: Any) -> Any:
        return generate(stories, tokenizer, "Once upon a time", **{"temperature": 0, "max_tokens": 20, **own})

    free = write()
    assert free.text == ", there was a little girl named Lily. She loved to play outside in the sunshine. One day" and free.finish_reason == "length"
    stop = write(stop=["Lily. S"])
    assert (stop.text, stop.finish_reason) == (", there was a little girl named ", "stop")
    assert write(stop=["Lily. S"], include_stop_str_in_output=True).text == ", there was a little girl named Lily. S"
    late = write(stop=["Lily"], min_tokens=19, max_tokens=20)
    assert late.finish_reason == "length" and late.text == free.text
    [named] = tokenizer.encode(" named", add_special_tokens=False)
    ended = write(eos_token_id=named)
    assert (ended.text, ended.finish_reason, ended.tokens[-1]) == (", there was a little girl", "eos", named)
    assert named not in write(eos_token_id=named, min_tokens=15).tokens[:15]
    assert write(stop_token_ids=[named]).finish_reason == "stop"
    assert len(write(max_tokens=1).tokens) == 1
    # The model's own end, from its settings.
    story = generate(stories, tokenizer, "Once upon a time", seed=7, temperature=0.7)
    assert story.finish_reason == "eos" and story.tokens[-1] == 0 and 16 < len(story.tokens) <= 256


def test_banned_strings_are_taken_back(stories: Any, tokenizer: Any) -> None:
    banned = ["little girl", " Lily", "big"]
    shown: list[str] = []
    found = generate(stories, tokenizer, "Once upon a time", seed=3, temperature=0.7, max_tokens=40, banned_strings=banned, stream=shown.append)
    assert not any(phrase in found.text for phrase in banned) and len(found.tokens) == len(found.sampled) == 40
    assert tokenizer.decode(found.tokens) == found.text == "".join(shown)
    params = onedraw.SamplingParams(seed=3, temperature=0.7, max_tokens=40, banned_strings=banned)
    ours: Any = onedraw.Generator(STORIES, threads=1).generate("Once upon a time", params)
    assert (ours.text, ours.tokens) == (found.text, list(found.tokens))
    several = generate(stories, tokenizer, "Once upon a time", seed=3, temperature=0.7, max_tokens=40, banned_strings=banned, n=2)
    assert several[0].tokens == found.tokens and several[1].tokens != found.tokens and "little girl" not in several[1].text


def test_logprobs(llama: Any) -> None:
    prompt = PROMPTS[2]
    found = generate(llama, None, prompt, seed=1, max_tokens=6, logprobs=3, prompt_logprobs=0)
    with torch.no_grad():
        logprobs = llama(torch.tensor([[*prompt, *found.tokens]])).logits[0].double().log_softmax(-1)
    for place, sampled in enumerate(found.sampled, len(prompt) - 1):
        assert sampled.logprob == pytest.approx(logprobs[place, sampled.token].item(), abs=1e-4)
        best = logprobs[place].topk(3).indices.tolist()
        assert [entry.token for entry in sampled.logprobs] == [sampled.token, *(token for token in best if token != sampled.token)]
    assert found.prompt_logprobs[0] is None
    for place, report in enumerate(found.prompt_logprobs[1:]):
        assert report.logprob == pytest.approx(logprobs[place, prompt[place + 1]].item(), abs=1e-4)
    assert generate(llama, None, prompt, seed=1, max_tokens=6).prompt_logprobs is None


def test_prompts_and_parameters(stories: Any, tokenizer: Any) -> None:
    params = onedraw.SamplingParams(seed=5, max_tokens=8)
    prompt = "Once upon a time"
    one = generate(stories, tokenizer, prompt, params)
    assert isinstance(one, Generated) and (str(one), one.seed) == (one.text, 5)
    tokens = tokenizer.encode(prompt)
    for same in (tokens, torch.tensor(tokens), np.array(tokens)):
        assert generate(stories, tokenizer, same, params) == one
    assert generate(stories, tokenizer, prompt, {"seed": 5, "max_tokens": 8}) == one == generate(stories, tokenizer, prompt, "creative", **params.to_dict())
    several = generate(stories, tokenizer, [prompt, "The dog"], [params, params.replace(n=2)])
    assert several == [one, *generate(stories, tokenizer, "The dog", params, n=2)]
    assert generate(stories, tokenizer, torch.tensor([tokens, tokens]), params) == [one, one]
    # A text goes on where it was left, and the default length is the object's.
    rest = generate(stories, tokenizer, prompt, params, max_tokens=12, output_token_ids=list(one.tokens))
    assert one.tokens + rest.tokens == generate(stories, tokenizer, prompt, params, max_tokens=12).tokens
    assert len(generate(stories, tokenizer, prompt, onedraw.SamplingParams(seed=1, ignore_eos=True)).tokens) == 16
    assert len(generate(stories, tokenizer, prompt, seed=1, ignore_eos=True).tokens) == 256


def test_streams_come_in_whole_characters(tokenizer: Any) -> None:
    """Characters of several tokens, with the tokenizer's table and with nothing but its decoder."""
    text = " café 🙂 naïve — done"
    script = [0, *tokenizer.encode(text, add_special_tokens=False), 0]
    for read in (tokenizer, Slow(tokenizer)):
        shown: list[str] = []
        found = generate(Scripted(script[1:]), read, [0], temperature=0, stream=shown.append)
        assert (found.text, found.finish_reason, "".join(shown)) == (text, "eos", text)
        assert len(shown) > 5 and not any("\ufffd" in piece for piece in shown)
        assert generate(Scripted(script[1:]), read, [0], temperature=0, stop="🙂").text == " café "


class Slow:
    """A tokenizer that is no fast one."""

    eos_token_id = 0

    def __init__(self, tokenizer: Any) -> None:
        self.encode, self.decode = tokenizer.encode, tokenizer.decode


def test_what_cannot_be(llama: Any, stories: Any, tokenizer: Any) -> None:
    with pytest.raises(TypeError, match="params are SamplingParams, a dict, a preset's name or None"):
        generate(llama, None, [1], 3.5)
    with pytest.raises(onedraw.ParamError, match="top_p") as raised:
        generate(llama, None, [1], top_p=1.5)
    assert raised.value.field == "top_p"
    for empty in ([], torch.tensor([], dtype=torch.long), [[1], []]):
        with pytest.raises(onedraw.ModelError, match="the prompt is empty"):
            generate(llama, None, empty)
    wrong = [
        ("draft_model", {"beams": 2, "draft_model": llama}, [1]),
        ("draft_tokens", {"draft_tokens": 0}, [1]),
        ("stream", {"stream": print, "n": 2}, [1]),
        ("stream", {"stream": print, "beams": 2}, [1]),
        ("stream", {"stream": print}, [[1], [2]]),
        ("params", {"params": [None]}, [[1], [2]]),
        ("tokenizer", {"stop": "x"}, [1]),
        ("beams", {"beams": 0}, [1]),
        ("n", {"beams": 2, "n": 3}, [1]),
    ]
    for field, own, prompt in wrong:
        with pytest.raises(onedraw.ParamError) as raised:
            generate(llama, None, prompt, **own)
        assert raised.value.field == field
    with pytest.raises(onedraw.ModelError, match="no output yet"):
        generate(llama, None, [1], beams=2, output_token_ids=[4])
    with pytest.raises(onedraw.RowError):
        generate(llama, None, [1], allowed_token_ids=[300])
    with pytest.raises(onedraw.ParamError, match="2 for 1 rows"):
        OnedrawLogitsProcessor([None, None])(torch.tensor([[1]]), torch.zeros(1, 5))
    with pytest.raises(onedraw.ParamError, match="does not divide the 3 rows"):
        OnedrawLogitsProcessor(n=2)(torch.tensor([[1]] * 3), torch.zeros(3, 5))


def test_what_a_tokenizer_gives_is_a_prompt(stories: Any, tokenizer: Any) -> None:
    model = stories
    encoded = tokenizer("Once upon a time", return_tensors="pt")
    whole = generate(model, tokenizer, "Once upon a time", seed=1, max_tokens=5)
    assert generate(model, tokenizer, encoded, seed=1, max_tokens=5) == [whole]
    assert generate(model, tokenizer, dict(tokenizer("Once upon a time")), seed=1, max_tokens=5) == whole
    with pytest.raises(onedraw.ModelError, match="a text needs a tokenizer"):
        generate(model, None, "Once")
    with pytest.raises(onedraw.ModelError, match="token 5000 of the prompt is outside the vocabulary of 4096"):
        generate(model, tokenizer, [5000])


def test_a_draft_model_has_the_same_tokens(stories: Any, tokenizer: Any) -> None:
    model = stories
    with pytest.raises(onedraw.ModelError, match="the draft model has .* tokens and the model 4096; both must have the same"):
        generate(model, tokenizer, "Once", draft_model=tiny())


def test_tokens_that_are_added_later_are_text(tokenizer: Any) -> None:
    import gc
    import weakref

    from onedraw._pieces import Pieces

    tokenizer = copy.deepcopy(tokenizer)
    assert Pieces(tokenizer).last([5]) == tokenizer.decode([5]).encode()
    tokenizer.add_tokens(["<new>"])
    assert Pieces(tokenizer).last([len(tokenizer) - 1]) == b"<new>"
    watched = weakref.ref(tokenizer)
    del tokenizer
    gc.collect()
    assert watched() is None


def test_a_processor_is_copied_and_pickled() -> None:
    processor = OnedrawLogitsProcessor(temperature=0.8, seed=3)
    scores = torch.randn(2, 50)
    for other in (copy.deepcopy(processor), pickle.loads(pickle.dumps(processor))):
        assert torch.equal(other(torch.ones(2, 3, dtype=torch.long), scores), processor(torch.ones(2, 3, dtype=torch.long), scores))
        processor.reset()
    assert processor(torch.ones(0, 3, dtype=torch.long), torch.randn(0, 50)).shape == (0, 50)
