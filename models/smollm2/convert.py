"""SmolLM2 from GGUF to a Hugging Face folder: see README.md beside this file.

    convert.py folder MODEL.gguf FOLDER     writes the folder
    convert.py chat FOLDER QUESTION         asks it at temperature 0, with transformers
    convert.py expect FOLDER FILE.json      writes what transformers makes of a question, for a test
"""

import json
import sys
from pathlib import Path

# Of the test.
QUESTION = "What is the capital of France? Tell me something about it."

# The names of GGUF, and those of Hugging Face.
OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
INSIDE = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def name(gguf):
    parts = gguf.split(".")
    if parts[0] == "blk":
        return f"model.layers.{parts[1]}.{INSIDE[parts[2]]}.{parts[3]}"
    return f"{OUTSIDE[parts[0]]}.{parts[1]}"


def unpermuted(weights, heads):
    """GGUF has the two numbers that a position turns side by side; Hugging Face has them half a head apart."""
    pairs = weights.reshape(heads, weights.shape[0] // heads // 2, 2, weights.shape[1])
    return pairs.swapaxes(1, 2).reshape(weights.shape)


def tensors(reader, heads, kv_heads):
    import numpy as np
    import torch
    from gguf.quants import dequantize

    permuted = {"attn_q": heads, "attn_k": kv_heads}
    for tensor in reader.tensors:
        numbers = dequantize(tensor.data, tensor.tensor_type)
        part = tensor.name.split(".")[-2]
        if part in permuted:
            numbers = unpermuted(numbers, permuted[part])
        # A copy, for what the file holds as it is cannot be written to, and torch warns of that.
        yield name(tensor.name), torch.from_numpy(np.array(numbers)).to(torch.bfloat16)


def tokenizer(tokens, merges, special):
    """Byte-level BPE; every digit is a word of its own."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    vocabulary = {token: number for number, token in enumerate(tokens)}
    made = Tokenizer(models.BPE(vocabulary, [tuple(merge.split(" ")) for merge in merges]))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return made


def folder(source, target):
    import numpy as np
    from gguf import GGUFReader
    from safetensors.torch import save_file

    reader = GGUFReader(source)

    def field(key):
        return reader.fields[key].contents()

    # The smallest decimal that is the number: these are written as float32.
    def decimal(key):
        return float(str(np.float32(field(key))))

    assert field("general.architecture") == "llama" and field("tokenizer.ggml.pre") == "smollm"
    heads, kv_heads = field("llama.attention.head_count"), field("llama.attention.head_count_kv")
    weights = dict(tensors(reader, heads, kv_heads))
    ends = {
        "bos_token_id": field("tokenizer.ggml.bos_token_id"),
        "eos_token_id": field("tokenizer.ggml.eos_token_id"),
        "pad_token_id": field("tokenizer.ggml.padding_token_id"),
    }
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "attention_dropout": 0.0,
        **ends,
        "hidden_act": "silu",
        "hidden_size": field("llama.embedding_length"),
        "intermediate_size": field("llama.feed_forward_length"),
        "max_position_embeddings": field("llama.context_length"),
        "mlp_bias": False,
        "num_attention_heads": heads,
        "num_hidden_layers": field("llama.block_count"),
        "num_key_value_heads": kv_heads,
        "rms_norm_eps": decimal("llama.attention.layer_norm_rms_epsilon"),
        "rope_scaling": None,
        "rope_theta": decimal("llama.rope.freq_base"),
        "tie_word_embeddings": "lm_head.weight" not in weights,
        "torch_dtype": "bfloat16",
        "vocab_size": field("llama.vocab_size"),
    }
    tokens = field("tokenizer.ggml.tokens")
    # Type 3: control tokens, which text does not contain.
    special = [token for token, kind in zip(tokens, field("tokenizer.ggml.token_type")) if kind == 3]
    token = {key.removesuffix("_id"): tokens[number] for key, number in ends.items()}
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **token,
        "unk_token": tokens[field("tokenizer.ggml.unknown_token_id")],
        "add_bos_token": field("tokenizer.ggml.add_bos_token"),
        "add_prefix_space": field("tokenizer.ggml.add_space_prefix"),
        "additional_special_tokens": [token["bos_token"], token["eos_token"]],
        "chat_template": field("tokenizer.chat_template"),
        "clean_up_tokenization_spaces": False,
        "model_max_length": field("llama.context_length"),
    }

    target.mkdir(parents=True, exist_ok=True)
    files = {"config": config, "generation_config": ends, "tokenizer_config": tokenizer_config}
    for file, content in files.items():
        (target / f"{file}.json").write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    tokenizer(tokens, field("tokenizer.ggml.merges"), special).save(str(target / "tokenizer.json"))
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    print(f"{len(weights)} tensors, {sum(tensor.nbytes for tensor in weights.values())} bytes, {len(tokens)} tokens")


def answer(target, question, count):
    """The ids of the question, what transformers says after them in float32, and the tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

    words = AutoTokenizer.from_pretrained(target)
    model = AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32, attn_implementation="eager").eval()
    # A test wants all tokens, whatever they are.
    model.generation_config.eos_token_id = None
    messages = [{"role": "user", "content": question}]
    text = words.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    ids = torch.tensor([words.encode(text, add_special_tokens=False)])
    with torch.no_grad():
        out = model.generate(
            ids,
            # The end of a turn is the padding as well: without a mask, transformers would take those of the prompt for padding.
            attention_mask=torch.ones_like(ids),
            generation_config=GenerationConfig(
                do_sample=False,
                max_new_tokens=count,
                return_dict_in_generate=True,
                output_logits=True,
            ),
        )
    tokens = out.sequences[0, ids.shape[1] :].tolist()
    assert len(tokens) == count
    return ids[0].tolist(), tokens, torch.cat(out.logits), words


def chat(target, question):
    _, tokens, _, words = answer(target, question, 64)
    end = words.eos_token_id
    print(words.decode(tokens[: tokens.index(end)] if end in tokens else tokens))


def expect(target, file):
    prompt, greedy, logits, words = answer(target, QUESTION, 32)
    best = logits.topk(2).values
    lead = (best[:, 0] - best[:, 1]).min().item()
    # Rounding must not decide a token.
    assert lead > 0.02, lead
    top = logits[0].topk(10)
    content = {
        "question": QUESTION,
        "answer": words.decode(greedy),
        "prompt": prompt,
        "top": top.indices.tolist(),
        "logits": [round(logit, 5) for logit in top.values.tolist()],
        "greedy": greedy,
    }
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in content.items()]
    Path(file).write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"the best token leads by {lead:.3f} at least")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["folder", source, target]:
            folder(Path(source), Path(target))
        case ["chat", target, question]:
            chat(Path(target), question)
        case ["expect", target, file]:
            expect(Path(target), Path(file))
        case _:
            sys.exit(__doc__)
