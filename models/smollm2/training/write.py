"""Writes text with SmolLM2, to train drafters on: `python write.py FOLDER TEXT.npy`.

FOLDER is what `convert.py folder` made. The model writes a user's question, after the first words of one, and then its own answer (as in Xu and others,
Magpie, 2024), or goes on with the first words of a story. TEXT.npy is a matrix of tokens; a row is one text, filled up with the end of a turn.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "stories" / "training"))
from llama import Llama, rotation

BEFORE = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n<|im_start|>user\n"
BETWEEN = "<|im_end|>\n<|im_start|>assistant\n"
END = "<|im_end|>"
# First words of questions. The first is none: the model asks what it likes.
QUESTIONS = [
    "", "", "", "", "What is", "Why", "How do I", "Can you explain", "Tell me about", "Give me a list of", "Write a story about", "Write a short story about a",
    "Write a poem about", "Write an email to", "Write a Python function that", "Summarize the following text:\n", "Correct the following text:\n",
    "Rewrite this text in simple words:\n", "Translate", "I feel",
]
# First words of texts without a question.
STORIES = [
    "Once upon a time", "One day,", "The old house", "She opened the door", "In a small village", "It was", "There was once", "A young", "Tom", "My grandmother",
    "The girl", "\"Where are", "On the first morning of", "Two friends", "The cat", "When",
]
STORY_SHARE = 0.35
# A question is cut after so many tokens.
LONGEST_QUESTION = 160
# Each row has one of them: as the presets have it, often without chance, and livelier.
TEMPERATURES = [0.7, 0.7, 0.0, 1.0]
TOP_K = 50


def in_bfloat16(model):
    """Matrices in bfloat16; norms stay as they are."""
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            module.to(torch.bfloat16)
    return model


class Writer:
    """The model with what it remembers of all rows, which stand at the same position."""

    def __init__(self, model, rows, length):
        shape, device = model.shape, model.model.embed_tokens.weight.device
        self.model, self.position = model, 0
        memory = lambda: torch.zeros(rows, shape.kv_heads, length, shape.width // shape.heads, dtype=torch.bfloat16, device=device)
        self.keys, self.values = ([memory() for _ in range(shape.layers)] for _ in range(2))
        self.cosines, self.sines = rotation(shape, length, device)

    def logits(self, tokens):
        """After one more token of each row."""
        here, self.position = self.position, self.position + 1
        cosines, sines = self.cosines[here : here + 1], self.sines[here : here + 1]
        body = self.model.model
        x = body.embed_tokens(tokens)[:, None]
        for layer, keys, values in zip(body.layers, self.keys, self.values):
            attention = layer.self_attn
            q, k, v = attention.heads(layer.input_layernorm(x), cosines, sines)
            keys[:, :, here : here + 1], values[:, :, here : here + 1] = k, v
            # The queries that share keys stand as positions beside each other: so keys are read once for all of them.
            q = q.unflatten(1, (self.model.shape.kv_heads, -1)).squeeze(3)
            mixed = F.scaled_dot_product_attention(q, keys[:, :, : here + 1], values[:, :, : here + 1])
            x = x + attention.o_proj(mixed.flatten(1)[:, None])
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return self.model.logits(body.norm(x))[:, 0].float()


def beginnings(tokenizer, rows, random):
    """The first tokens of each row, and whether a question is to end there."""
    ids = lambda text: tokenizer.encode(text, add_special_tokens=False).ids
    asked, told = [ids(BEFORE + words) for words in QUESTIONS], [ids(words) for words in STORIES]
    tells = random.random(rows) < STORY_SHARE
    pick = lambda texts: texts[random.integers(len(texts))]
    return [pick(told) if tells[row] else pick(asked) for row in range(rows)], ~tells


# cuDNN would make a plan for each length.
@sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH])
@torch.no_grad()
def texts(model, tokenizer, rows, length, random):
    """A matrix of rows × length tokens that the model wrote."""
    device = model.model.embed_tokens.weight.device
    end = tokenizer.token_to_id(END)
    between = tokenizer.encode(BETWEEN, add_special_tokens=False).ids
    given, asks = beginnings(tokenizer, rows, random)
    # What a row must write next, as far as it is known; -1 where the model is free.
    forced = torch.full((rows, length + len(between)), -1, dtype=torch.long)
    for row, ids in enumerate(given):
        forced[row, : len(ids)] = torch.tensor(ids)
    forced, in_question = forced.to(device), torch.from_numpy(asks).to(device)
    question_ends = torch.tensor([len(ids) + LONGEST_QUESTION for ids in given], device=device)
    between = torch.tensor(between, device=device)
    temperatures = torch.tensor(random.choice(TEMPERATURES, rows), dtype=torch.float32, device=device)[:, None]
    is_done = torch.zeros(rows, dtype=torch.bool, device=device)
    writer, written = Writer(model, rows, length), torch.full((rows, length), end, dtype=torch.long, device=device)
    tokens = forced[:, 0]
    for place in range(length):
        written[:, place] = tokens
        if place + 1 == length:
            break
        best, ids = writer.logits(tokens).topk(TOP_K)
        noise = -torch.empty_like(best).exponential_().log()
        drawn = ids.gather(1, (best + temperatures * noise).argmax(1, keepdim=True))[:, 0]
        # A question that ends, or is cut, is followed by the beginning of an answer.
        ends = in_question & ((drawn == end) & (forced[:, place + 1] < 0) | (place + 1 >= question_ends))
        ahead = forced[:, place + 1 : place + 1 + len(between)]
        ahead.copy_(torch.where(ends[:, None], between, ahead))
        in_question &= ~ends
        next_forced = forced[:, place + 1]
        tokens = torch.where(next_forced >= 0, next_forced, drawn).masked_fill(is_done, end)
        is_done |= ~in_question & (tokens == end) & (next_forced < 0)
        # Seldom asked, because the answer is waited for.
        if place % 64 == 0 and is_done.all():
            break
    return written.cpu().numpy().astype(np.uint16)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("model", type=Path)
    options.add_argument("output", type=Path)
    options.add_argument("--rows", type=int, default=3072, help="texts that are written side by side")
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument("--length", type=int, default=768)
    options.add_argument("--seed", type=int, default=20261119)
    options.add_argument("--device", default="cuda")
    given = options.parse_args()
    torch.manual_seed(given.seed)
    random = np.random.default_rng(given.seed)
    tokenizer = Tokenizer.from_file(str(given.model / "tokenizer.json"))
    model = in_bfloat16(Llama.open(given.model).to(given.device))
    begun, parts = time.time(), []
    for number in range(given.rounds):
        parts.append(texts(model, tokenizer, given.rows, given.length, random))
        # After each round: a run may be stopped at its limit.
        np.save(given.output, np.concatenate(parts))
        end = tokenizer.token_to_id(END)
        print(f"round {number + 1}: {(parts[-1] != end).sum()} tokens, {time.time() - begun:.0f} s", flush=True)
    for row in parts[0][:4]:
        print("---", tokenizer.decode(row.tolist(), skip_special_tokens=False).split(END + END)[0], sep="\n")


if __name__ == "__main__":
    main()
