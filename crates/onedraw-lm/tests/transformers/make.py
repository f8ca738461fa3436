"""Small random models of odd shapes, and what transformers makes of them: see README.md beside this file.

Needs torch, transformers 5.22.2 and safetensors. Writes the folders beside itself, the same bytes every time.
"""

import copy
import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig, logging

HERE = Path(__file__).parent
GREEDY = 64
# The best logit must lead the next by this much, so that rounding decides no token.
LEAD = 1e-2

# `prompt`: its length; `plain`: the shape without what the model is there for, whose logits must differ; `parts`: the largest size of one file;
# `old`: what of config.json to write as older versions did.
MODELS = {
    "llama-grouped": dict(
        kind="llama",
        dtype="bfloat16",
        prompt=37,
        shape=dict(
            hidden_size=54,
            intermediate_size=77,
            num_hidden_layers=3,
            num_attention_heads=6,
            num_key_value_heads=2,
            head_dim=10,
            tie_word_embeddings=True,
        ),
    ),
    "llama-llama3": dict(
        kind="llama",
        dtype="float32",
        prompt=45,
        shape=dict(
            hidden_size=44,
            intermediate_size=59,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=4,
            head_dim=22,
            # Waves of 6, 12, 22, 41 ... positions: short is under 8, long over 32.
            rope_parameters=dict(
                rope_type="llama3",
                rope_theta=1000.0,
                factor=8.0,
                low_freq_factor=1.0,
                high_freq_factor=4.0,
                original_max_position_embeddings=32,
            ),
        ),
        plain=dict(rope_parameters=dict(rope_type="default", rope_theta=1000.0)),
        old=["rope"],
    ),
    "llama-linear": dict(
        kind="llama",
        dtype="float16",
        prompt=33,
        shape=dict(
            hidden_size=39,
            intermediate_size=101,
            num_hidden_layers=2,
            num_attention_heads=3,
            num_key_value_heads=3,
            head_dim=34,
            rope_parameters=dict(rope_type="linear", rope_theta=10_000.0, factor=2.5),
            tie_word_embeddings=True,
        ),
        plain=dict(rope_parameters=dict(rope_type="default", rope_theta=10_000.0)),
        old=["rope", "type"],
    ),
    "llama-biases": dict(
        kind="llama",
        dtype="float32",
        prompt=19,
        shape=dict(
            hidden_size=40,
            intermediate_size=33,
            num_hidden_layers=2,
            num_attention_heads=5,
            num_key_value_heads=1,
            attention_bias=True,
            mlp_bias=True,
        ),
        plain=dict(mlp_bias=False),
        old=["rope", "head_dim"],
    ),
    "mistral-window": dict(
        kind="mistral",
        dtype="bfloat16",
        prompt=41,
        shape=dict(
            hidden_size=52,
            intermediate_size=64,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=14,
            sliding_window=8,
        ),
        plain=dict(sliding_window=None),
        parts="90KB",
    ),
    "qwen2": dict(
        kind="qwen2",
        dtype="float16",
        prompt=30,
        shape=dict(
            hidden_size=48,
            intermediate_size=71,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            tie_word_embeddings=True,
        ),
    ),
    "qwen2-window": dict(
        kind="qwen2",
        dtype="bfloat16",
        prompt=35,
        shape=dict(
            hidden_size=36,
            intermediate_size=65,
            num_hidden_layers=4,
            num_attention_heads=6,
            num_key_value_heads=3,
            use_sliding_window=True,
            sliding_window=6,
            max_window_layers=2,
        ),
        plain=dict(layer_types=["full_attention"] * 4),
        old=["rope", "layer_types"],
    ),
    "qwen3": dict(
        kind="qwen3",
        dtype="bfloat16",
        prompt=48,
        shape=dict(
            hidden_size=50,
            intermediate_size=90,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=24,
        ),
    ),
    "qwen3-window": dict(
        kind="qwen3",
        dtype="float16",
        prompt=26,
        shape=dict(
            hidden_size=35,
            intermediate_size=48,
            num_hidden_layers=4,
            num_attention_heads=2,
            num_key_value_heads=2,
            head_dim=18,
            attention_bias=True,
            use_sliding_window=True,
            sliding_window=5,
            layer_types=["sliding_attention", "full_attention"] * 2,
            tie_word_embeddings=True,
        ),
        plain=dict(layer_types=["full_attention"] * 4),
    ),
}

# The prompt of the embedded model.
STORY = "Once upon a time, a small fox named Tim lived in the woods."

# Of all models.
COMMON = dict(
    vocab_size=131,
    max_position_embeddings=128,
    rms_norm_eps=1e-5,
    bos_token_id=None,
    eos_token_id=None,
    pad_token_id=None,
)


def fill(model, generator):
    """Random weights, larger than those training begins with: logits lie apart, and attention looks at some positions more than at others."""
    for name, weights in sorted(model.named_parameters()):
        numbers = torch.randn(weights.shape, generator=generator)
        if name.endswith("norm.weight"):
            numbers = 1 + 0.25 * numbers
        else:
            numbers = (0.5 if "embed" in name or "lm_head" in name else 0.3) * numbers
        weights.data.copy_(numbers)
    model.tie_weights()


def age(folder, changes):
    """Rewrites config.json as older versions wrote it."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    if "rope" in changes:
        rope = config.pop("rope_parameters")
        config["rope_theta"] = rope.pop("rope_theta")
        config["rope_scaling"] = rope if rope["rope_type"] != "default" else None
    if "type" in changes:
        config["rope_scaling"]["type"] = config["rope_scaling"]["rope_type"]
    for name in ("head_dim", "layer_types"):
        if name in changes:
            del config[name]
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def load(folder, config=None):
    """The model as it lies there, computed in float32."""
    model = AutoModelForCausalLM.from_pretrained(
        folder, config=config, dtype=torch.float32, attn_implementation="eager"
    )
    return model.eval()


def run(model, prompt):
    """The logits of every position of the prompt, the greedy tokens, and by how much each led."""
    # An explicit mask: from a pad token among the prompt, transformers would infer one.
    mask = torch.ones_like(prompt)
    logits = model(prompt, attention_mask=mask).logits[0]
    out = model.generate(
        prompt,
        attention_mask=mask,
        generation_config=GenerationConfig(
            do_sample=False,
            max_new_tokens=GREEDY,
            eos_token_id=None,
            return_dict_in_generate=True,
            output_logits=True,
        ),
    )
    greedy = out.sequences[0, prompt.shape[1] :]
    best = torch.cat(out.logits).topk(2).values
    # The cache must not matter: the text in one pass, without it.
    whole = model(out.sequences, attention_mask=torch.ones_like(out.sequences), use_cache=False).logits[0]
    assert torch.equal(whole[prompt.shape[1] - 1 : -1].argmax(-1), greedy)
    return logits, greedy, (best[:, 0] - best[:, 1]).min().item()


def make(name, kind, dtype, prompt, shape, plain=None, parts=None, old=()):
    folder = HERE / name
    for seed in range(100):
        generator = torch.Generator().manual_seed(1000 * sorted(MODELS).index(name) + seed)
        shutil.rmtree(folder, ignore_errors=True)
        config = AutoConfig.for_model(kind, **COMMON, **shape)
        model = AutoModelForCausalLM.from_config(config)
        fill(model, generator)
        model.to(getattr(torch, dtype)).save_pretrained(folder, **({"max_shard_size": parts} if parts else {}))
        (folder / "generation_config.json").unlink()
        age(folder, old)

        tokens = torch.randint(config.vocab_size, (1, prompt), generator=generator)
        model = load(folder)
        logits, greedy, lead = run(model, tokens)
        if lead > LEAD and len(set(greedy.tolist())) >= 8:
            break
    else:
        raise SystemExit(f"{name}: no seed gives clear winners")

    if plain:
        # What the model is there for must show.
        other = copy.deepcopy(model.config)
        for key, value in plain.items():
            setattr(other, key, value)
        plain_logits, _, _ = run(load(folder, other), tokens)
        assert (plain_logits - logits).abs().max() > 0.1, name

    expected = {
        "prompt": tokens[0].to(torch.int32),
        "logits": logits.contiguous(),
        "greedy": greedy.to(torch.int32),
    }
    save_file(expected, folder / "expected.safetensors")
    files = sorted(folder.iterdir())
    if parts:
        assert len([file for file in files if file.name.startswith("model-")]) == 2, files
    size = sum(file.stat().st_size for file in files)
    print(
        f"{name}: seed {seed}, lead {lead:.4f}, {len(set(greedy.tolist()))} tokens of {GREEDY}, "
        f"spread {logits.std():.2f}, {size} bytes"
    )
    return size


def stories(folder):
    """The embedded model, as transformers loads its folder: tokens by its tokenizer, settings by its generation config."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.decode(tokenizer(STORY).input_ids, skip_special_tokens=True) == STORY
    settings = GenerationConfig.from_pretrained(folder)
    assert (settings.eos_token_id, settings.do_sample, settings.temperature) == (0, True, 0.7)
    tokens = tokenizer(STORY, return_tensors="pt").input_ids
    logits, greedy, lead = run(load(folder), tokens)
    assert lead > 1e-3, lead
    print(f"stories: lead {lead:.4f}; {tokenizer.decode(greedy)!r}")
    output = HERE / "stories"
    output.mkdir(exist_ok=True)
    save_file(
        {"prompt": tokens[0].to(torch.int32), "logits": logits.contiguous(), "greedy": greedy.to(torch.int32)},
        output / "expected.safetensors",
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    with torch.no_grad():
        stories(HERE / "../../../../models/stories")
        total = sum(make(name, **model) for name, model in MODELS.items())
    print(f"{total} bytes")
    assert total < 1_500_000
