"""Audits and traces: what is drawn passes, what is changed does not."""

import hashlib
import json
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

import onedraw


def rows(count, vocabulary=500, seed=1):
    return (np.random.default_rng(seed).normal(size=(count, vocabulary)) * 3).astype("f4")


def drawn(logits, **parameters):
    sampler = onedraw.Sampler(**parameters)
    return [sampler.sample(row).token for row in logits]


CHAINS = [
    {"temperature": 0.8, "top_p": 0.9},
    {"temperature": 0},
    {"typical_p": 0.9, "xtc_probability": 0.5},
    {"mirostat": 2, "mirostat_tau": 3.0},
    {"repetition_penalty": 1.3, "prompt_token_ids": [1, 2, 3], "output_token_ids": [4]},
]


@pytest.mark.parametrize("chain", CHAINS)
def test_drawn_tokens_are_equal(chain):
    logits = rows(60)
    tokens = drawn(logits, seed=7, **chain)
    audits = onedraw.audit(logits, tokens, seed=7, **chain)
    assert audits.equal == len(audits) == 60
    assert audits.drawn.tolist() == audits.tokens.tolist() == tokens
    assert not audits.gaps.any() and not audits.outside.any() and audits.is_kept.all()
    assert (audits.judge().verdict, audits.judge().places) == ("same", [])


def test_gaps_are_differences_of_scores():
    logits = rows(1)
    sampler = onedraw.Sampler(temperature=0.5, top_k=10, seed=3)
    winner = sampler.peek(logits[0]).token
    kept = set(onedraw.distribution(logits[0], temperature=0.5, top_k=10).tokens.tolist())
    last = sorted(logits[0])[-10]
    for token in range(500):
        audit = sampler.audit(logits[0], token)
        assert (audit.token, audit.drawn, audit.is_drawn) == (token, winner, token == winner)
        assert audit.is_kept == (token in kept)
        outside = 0.0 if audit.is_kept else (float(last) - float(logits[0][token])) / 0.5
        assert audit.outside == pytest.approx(outside, abs=1e-9)
        assert (audit.distance == 0) == audit.is_drawn or audit.distance < audit.gap
    # Without noise a gap is the difference of the logits.
    greedy = onedraw.Sampler(temperature=0).audit([1.0, 4.5, 4.0], 2)
    assert (greedy.gap, greedy.drawn, greedy.is_kept) == (0.5, 1, False)


def test_a_change_is_found():
    logits = rows(150)
    tokens = drawn(logits, seed=7, temperature=0.8, top_p=0.95)
    for changed in ({"temperature": 1.2, "top_p": 0.95}, {"temperature": 0.8, "top_p": 0.5}):
        judgement = onedraw.audit(logits, tokens, seed=7, **changed).judge()
        assert judgement.verdict == "other" and judgement.places and judgement.chance < 0.01
    other = onedraw.audit(logits, tokens, seed=8, temperature=0.8, top_p=0.95)
    assert other.equal < 100 and other.judge().verdict == "other"
    # A little noise is other arithmetic.
    near = (logits + np.random.default_rng(2).normal(size=logits.shape) * 1e-3).astype("f4")
    assert onedraw.audit(near, tokens, seed=7, temperature=0.8, top_p=0.95).judge().verdict in ("same", "arithmetic")


def test_an_audit_goes_on_from_the_claimed_token():
    logits = rows(2)
    sampler = onedraw.Sampler(mirostat=2, seed=1)
    audit = sampler.audit(logits[0], 9)
    sampler.accept(audit)
    assert sampler.output == [9]
    again = onedraw.audit(logits, [9, 5], mirostat=2, seed=1)
    assert again[1] == sampler.audit(logits[1], 5)
    assert again[-1] == again[1] and len(list(again)) == 2


def test_masks_and_bad_input():
    logits = rows(3, 40)
    mask = np.zeros(40, dtype=bool)
    mask[[3, 5]] = True
    masked = onedraw.audit(logits, [3, 5, 7], seed=1, mask=[mask, None, mask])
    assert np.isinf(masked.gaps[2]) and np.isinf(masked.outside[2]) and not masked.is_kept[2]
    with pytest.raises(onedraw.ParamError, match="seed"):
        onedraw.audit(logits, [1, 2, 3])
    with pytest.raises(onedraw.TensorError, match="2 tokens and 3 rows"):
        onedraw.audit(logits, [1, 2], seed=1)
    bad = logits.copy()
    bad[1, 4] = np.nan
    with pytest.raises(onedraw.RowsError, match="row 1: .*NaN") as raised:
        onedraw.audit(bad, [1, 2, 3], seed=1)
    assert raised.value.results[0] == onedraw.audit(logits, [1, 2, 3], seed=1)[0]
    with pytest.raises(onedraw.RowsError, match="row 2: .*40"):
        onedraw.audit(logits, [1, 2, 40], seed=1)
    with pytest.raises(IndexError, match="3 tokens"):
        masked[3]
    for rate in (0, 1, float("nan")):
        with pytest.raises(onedraw.ParamError, match="false_alarms: must be above 0 and below 1"):
            masked.judge(false_alarms=rate)


def test_one_of_several_texts():
    logits = rows(30)
    params = onedraw.SamplingParams(n=3, seed=7, top_p=0.9)
    batch = onedraw.Batch()
    ids = batch.add_all(params)
    texts = [[batch.sample([id], row[None])[0].token for row in logits] for id in ids]
    assert texts[0] != texts[1] != texts[2]
    for sequence, tokens in enumerate(texts):
        assert onedraw.audit(logits, tokens, params, sequence=sequence).equal == 30
    assert onedraw.audit(logits, texts[2], params).equal < 30
    with pytest.raises(onedraw.ParamError, match="must be below n"):
        onedraw.audit(logits, texts[0], params, sequence=3)


def test_kept_sets_of_a_draw():
    logits = rows(1)[0]
    chain = {"temperature": 0.7, "top_p": 0.9, "repetition_penalty": 1.2, "prompt_token_ids": [3, 4], "seed": 2}
    sampler = onedraw.Sampler(kept="summary", **chain)
    summary = sampler.peek(logits).kept
    full = onedraw.sample(logits, kept="ids", **chain).kept
    assert summary.ids is None and len(summary) == summary.count == full.count == len(full.ids)
    assert (summary.last_token, summary.last_logit, summary.ln_mass) == (full.last_token, full.last_logit, full.ln_mass)
    edited = sampler.edited(logits)
    assert summary.ids_of(edited).tolist() == full.ids.tolist()
    assert [token for token in range(500) if summary.contains(edited, token)] == full.ids.tolist()
    assert edited.logits[3] != logits[3] and len(edited) == 500
    with pytest.raises(ValueError, match="does not belong to this row"):
        summary.ids_of(onedraw.EditedRow(logits + 1))
    with pytest.raises(onedraw.ParamError, match="kept"):
        onedraw.Sampler(kept="summary", typical_p=0.9)
    sampled = onedraw.sample(logits, kept="ids", **chain)
    assert pickle.loads(pickle.dumps(sampled)) == sampled
    assert sampled.to_dict()["kept"]["ids"] == full.ids.tolist()
    assert onedraw.sample(logits, seed=1).kept is None


def test_a_generator_writes_traces(tmp_path):
    path = tmp_path / "t.jsonl"
    generator = onedraw.Generator(trace=path)
    texts = generator.generate(["Once upon a time", "The dog"], seed=7, n=2, max_tokens=12, kept="summary")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted(line["output_token_ids"] for line in lines) == sorted(text.tokens for text in texts)
    assert {line["stream_version"] for line in lines} == {onedraw.STREAM_VERSION}
    for line in lines:
        tokens, prompt = line["output_token_ids"], line["prompt_token_ids"]
        logits = generator.logits(prompt + tokens)[len(prompt) - 1 : -1]
        params = {**line["params"], "prompt_token_ids": prompt, "kept": "none"}
        assert onedraw.audit(logits, tokens, params, sequence=line["sequence"]).equal == len(tokens)
    assert [event.text for event in generator.stream("The", seed=1, max_tokens=2)]
    assert len(path.read_text().splitlines()) == 5
    with pytest.raises(onedraw.ModelError, match="trace"):
        onedraw.Generator(trace=tmp_path)


def test_a_model_is_named_by_its_tensors(tmp_path):
    """The hash as the documents describe it, from the file itself."""
    data = (Path(__file__).parents[3] / "models/stories/model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    digest = hashlib.sha256()

    def part(content):
        digest.update(struct.pack("<Q", len(content)) + content)

    for name in sorted(header):
        tensor = header[name]
        part(name.encode())
        part(tensor["dtype"].encode())
        digest.update(struct.pack(f"<{1 + len(tensor['shape'])}Q", len(tensor["shape"]), *tensor["shape"]))
        start, end = (8 + length + offset for offset in tensor["data_offsets"])
        part(data[start:end])
    path = tmp_path / "t.jsonl"
    onedraw.Generator(trace=path).generate("The", seed=1, max_tokens=1)
    assert json.loads(path.read_text())["model"] == digest.hexdigest()
