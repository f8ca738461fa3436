"""A model of this repository as a file for llama.cpp; needs the package gguf.

    to_gguf.py FOLDER FILE.gguf [--type f32|bf16] [--tokenizer FOLDER]

The folder is that of a Llama with a byte-level BPE tokenizer in Hugging Face's layout: models/stories, or
models/stories-drafters/drafter with `--tokenizer models/stories`. The weights are bf16, so that f32 holds the same
numbers; vectors (the norms) are f32 either way, as llama.cpp wants them.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType, TokenType
from gguf.quants import quantize

sys.path.insert(0, str(Path(__file__).parent / "smollm2"))
from convert import INSIDE, OUTSIDE  # noqa: E402 (the names of the tensors; that script goes the other way)

TYPES = {
    "f32": (GGMLQuantizationType.F32, LlamaFileType.ALL_F32),
    "bf16": (GGMLQuantizationType.BF16, LlamaFileType.MOSTLY_BF16),
}


def name(tensor):
    """GGUF's name of a tensor."""
    outside = {theirs: ours for ours, theirs in OUTSIDE.items()}
    inside = {theirs: ours for ours, theirs in INSIDE.items()}
    stem, kind = tensor.rsplit(".", 1)
    if stem in outside:
        return f"{outside[stem]}.{kind}"
    _, _, layer, part = stem.split(".", 3)
    return f"blk.{layer}.{inside[part]}.{kind}"


def permuted(weights, heads):
    """GGUF has the two numbers that a position turns side by side; Hugging Face has them half a head apart."""
    halves = weights.reshape(heads, 2, weights.shape[0] // heads // 2, weights.shape[1])
    return halves.swapaxes(1, 2).reshape(weights.shape)


def tensors(file):
    """The tensors of a safetensors file of bf16 numbers, as f32."""
    data = file.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    for tensor, entry in json.loads(data[8:start]).items():
        if tensor == "__metadata__":
            continue
        if entry["dtype"] != "BF16":
            sys.exit(f"{file}: {tensor} is {entry['dtype']}, not BF16")
        begin, end = (start + offset for offset in entry["data_offsets"])
        halves = np.frombuffer(data[begin:end], "<u2").astype(np.uint32)
        yield tensor, (halves << 16).view(np.float32).reshape(entry["shape"])


def add_settings(writer, config):
    heads = config["num_attention_heads"]
    writer.add_vocab_size(config["vocab_size"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_rope_dimension_count(config["head_dim"])


def add_tokenizer(writer, tokenizer, config):
    model = tokenizer["model"]
    special = {token["id"] for token in tokenizer["added_tokens"] if token["special"]}
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    # GPT-2's way of cutting a text into words, which is what ByteLevel with its regular expression does.
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([TokenType.CONTROL if i in special else TokenType.NORMAL for i in range(len(tokens))])
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]])
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    # The tokenizer begins each text with the mark that also ends one.
    writer.add_add_bos_token(True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--type", choices=TYPES, default="f32")
    parser.add_argument("--tokenizer", type=Path, help="the folder of tokenizer.json; the model's own by default")
    arguments = parser.parse_args()
    kind, file_type = TYPES[arguments.type]
    config = json.loads((arguments.folder / "config.json").read_text("utf-8"))
    tokenizer = json.loads(((arguments.tokenizer or arguments.folder) / "tokenizer.json").read_text("utf-8"))

    writer = GGUFWriter(arguments.file, "llama")
    writer.add_file_type(file_type)
    add_settings(writer, config)
    add_tokenizer(writer, tokenizer, config)
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    for tensor, numbers in tensors(arguments.folder / "model.safetensors"):
        part = tensor.split(".")[-2]
        if part in heads:
            numbers = permuted(numbers, heads[part])
        if numbers.ndim == 1:
            writer.add_tensor(name(tensor), numbers)
        else:
            writer.add_tensor(name(tensor), quantize(numbers, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main()
