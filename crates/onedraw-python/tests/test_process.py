"""What a long-running process needs: threads, memory, the interpreter let go; and the program that draws the same."""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from conftest import row

import onedraw


def test_several_threads_draw_what_one_draws() -> None:
    logits = [row(seed, 20_000) for seed in range(8)]

    def text(seed: int) -> list[int]:
        sampler = onedraw.Sampler(temperature=0.9, top_p=0.95, repetition_penalty=1.2, seed=seed)
        once = [onedraw.sample(logits[seed % 8], temperature=0.9, seed=position).token for position in range(20)]
        return once + [sampler.sample(logits[(seed + position) % 8]).token for position in range(60)]

    alone = [text(seed) for seed in range(32)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(text, range(32))) == alone


def test_one_sampler_is_used_by_one_thread_at_a_time() -> None:
    """Its history has no holes and no token twice, whoever drew."""
    sampler, logits = onedraw.Sampler(seed=1, max_tokens=10_000), row(1, 5000)
    with ThreadPoolExecutor(8) as pool:
        drawn = list(pool.map(lambda _: sampler.sample(logits), range(800)))
    assert sorted(sampled.position for sampled in drawn) == list(range(800))
    assert sampler.output == [sampled.token for sampled in sorted(drawn, key=lambda sampled: sampled.position)]
    again = onedraw.Sampler(seed=1)
    assert [again.sample(logits).token for _ in range(800)] == sampler.output


def test_one_batch_is_shared() -> None:
    batch, rows = onedraw.Batch(threads=2), np.stack([row(seed, 3000) for seed in range(4)])

    def work(seed: int) -> list[int]:
        ids = [batch.add(seed=seed * 4 + i, temperature=1.2) for i in range(4)]
        for _ in range(10):
            batch.sample(ids, rows)
        outputs = [token for one in ids for token in batch.output(one)]
        for one in ids:
            batch.remove(one)
        return outputs

    alone = [work(seed) for seed in range(12)]
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(work, range(12))) == alone
    assert len(batch) == 0


def test_the_interpreter_is_released() -> None:
    """While one thread is inside a single long call, another one counts."""
    counted = 0
    stop = threading.Event()

    def count() -> None:
        nonlocal counted
        while not stop.is_set():
            counted += 1
            time.sleep(0)

    rows = np.stack([row(seed, 1 << 20, 0.01) for seed in range(20)])
    counter = threading.Thread(target=count)
    counter.start()
    try:
        onedraw.distribution(rows[:1])  # Warm.
        at_start = counted
        onedraw.explain(rows, typical_p=0.9)
        during = counted - at_start
    finally:
        stop.set()
        counter.join()
    assert during > 50


def test_a_forked_process_is_told_of_its_threads() -> None:
    """They stay where they were; whoever waited for them would wait for ever."""
    program = """
import os, warnings, numpy as np, onedraw
warnings.simplefilter("ignore")
rows = np.zeros((4, 100), "f4")
batch, generator = onedraw.Batch(threads=2), onedraw.Generator(threads=2)
ids = [batch.add(seed=i) for i in range(4)]
batch.sample(ids, rows)
generator.generate("Once", max_tokens=2)
child = os.fork()
if child == 0:
    said = []
    for use in (lambda: batch.sample(ids, rows), lambda: generator.generate("Once", max_tokens=2)):
        try:
            use()
        except RuntimeError as error:
            said.append(str(error))
    alone = onedraw.Batch()
    onedraw.sample(rows[0], seed=1), alone.sample([alone.add()], rows[:1])
    os._exit(0 if [text.count("forked") for text in said] == [1, 1] else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout == "0\n"


def test_control_c_ends_a_long_call() -> None:
    # A process that was started in the background ignores the signal, and so do its children.
    program = """
import signal, onedraw
signal.signal(signal.SIGINT, signal.default_int_handler)
generator = onedraw.Generator()
try:
    print("ready", flush=True)
    {call}
    print("done")
except KeyboardInterrupt:
    print("interrupted")
"""
    for call in ("generator.generate('Once', ignore_eos=True, max_tokens=500, n=64)", "generator.beams('Once', width=64, max_tokens=400, ignore_eos=True)"):
        with subprocess.Popen([sys.executable, "-c", program.format(call=call)], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=60)[0] == "interrupted\n"


def resident() -> int:
    """Kilobytes of this process, now."""
    if sys.platform != "linux":
        pytest.skip("reads /proc")
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() // 1024


def test_memory_does_not_grow_in_a_hundred_thousand_calls() -> None:
    logits = row(1, 256)
    half = logits.astype("f2")
    params = onedraw.SamplingParams(temperature=0.8, top_p=0.9, seed=1, logprobs=2)
    sampler = onedraw.Sampler(params)
    batch = onedraw.Batch()
    nan = logits.copy()
    nan[3] = np.nan
    edit = onedraw.SamplingParams(seed=1).with_stage(onedraw.Edit("nothing", lambda view: None), before="temperature")

    def calls(count: int) -> None:
        for i in range(count):
            onedraw.sample(logits, temperature=0.8, top_k=5, seed=i)
            onedraw.sample(half, params)
            sampler.sample(logits)
            sampler.rewind(0)
            if i % 10 == 0:
                one = batch.add(params)
                batch.sample([one], half[None])
                batch.remove(one)
                onedraw.distribution(logits, top_k=9)._repr_html_()
                onedraw.sample(logits, edit)
                try:
                    onedraw.sample(np.stack([logits, nan]), params)
                except onedraw.RowsError:
                    pass
                try:
                    onedraw.sample(logits, temperature=-1)
                except onedraw.ParamError:
                    pass

    calls(3_000)
    gc.collect()
    before = resident()
    calls(100_000)
    gc.collect()
    assert resident() - before < 2_000, "kilobytes: twenty bytes a call"


def program(root: Path, *arguments: str) -> list[dict[str, object]]:
    """What the program prints: the one that was built last, or a new one where there is none."""
    target = root / os.environ.get("CARGO_TARGET_DIR", "target")
    built = [path for path in target.glob("*/onedraw") if path.is_file()]
    if not built:
        subprocess.run(["cargo", "build", "-q", "--release", "-p", "onedraw-cli"], cwd=root, check=True)
        built = [target / "release/onedraw"]
    newest = max(built, key=lambda path: path.stat().st_mtime)
    run = subprocess.run([newest, *arguments], cwd=root, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_the_program_draws_the_same(root: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((5, 128_256)).astype("f4")
    np.save(tmp_path / "rows.npy", rows)
    params = {"temperature": 0.8, "top_p": 0.9, "seed": 1}
    lines = program(root, "sample", str(tmp_path / "rows.npy"), "--params", json.dumps(params), "--draws", "3")
    samplers = [onedraw.Sampler(params, logprobs=0) for _ in rows]
    assert len(lines) == 15
    for line in lines:
        sampled = samplers[int(str(line["row"]))].peek(rows[int(str(line["row"]))], int(str(line["draw"])))
        assert {name: value for name, value in sampled.to_dict().items() if name in line and name != "logprobs"} == {
            name: line[name] for name in ("token", "logprob", "probability", "rank", "seed", "position")
        }
    assert [onedraw.sample(logits, temperature=0.8, top_p=0.9, seed=1).token for logits in rows] == [line["token"] for line in lines if line["draw"] == 0]


def test_the_program_writes_the_same(root: Path) -> None:
    (line,) = program(root, "generate", "Once upon a time", "--seed", "7", "--max-tokens", "50", "--format", "json")
    text = onedraw.Generator().generate("Once upon a time", seed=7, max_tokens=50)
    assert (text.text, text.tokens, text.finish_reason, text.seed) == (line["text"], line["tokens"], line["finish_reason"], line["seed"])
