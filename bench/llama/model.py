"""Writes a model whose only use is its 128,256 logits, for speed.cpp: model.py FILE.gguf; needs the package gguf."""

import sys

import numpy as np
from gguf import GGUFWriter

VOCABULARY, WIDTH = 128_256, 32

random = np.random.default_rng(1)
writer = GGUFWriter(sys.argv[1], "llama")
writer.add_vocab_size(VOCABULARY)
writer.add_context_length(512)
writer.add_embedding_length(WIDTH)
writer.add_block_count(1)
writer.add_feed_forward_length(WIDTH)
writer.add_head_count(1)
writer.add_head_count_kv(1)
writer.add_layer_norm_rms_eps(1e-5)
writer.add_rope_dimension_count(WIDTH)
writer.add_tokenizer_model("no_vocab")
matrices = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]
shapes = {f"blk.0.{name}.weight": (WIDTH, WIDTH) for name in matrices}
shapes |= {"token_embd.weight": (VOCABULARY, WIDTH), "output_norm.weight": (WIDTH,)}
shapes |= {"blk.0.attn_norm.weight": (WIDTH,), "blk.0.ffn_norm.weight": (WIDTH,)}
for name, shape in shapes.items():
    writer.add_tensor(name, random.standard_normal(shape).astype(np.float32))
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
