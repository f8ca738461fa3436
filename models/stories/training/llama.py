"""A Llama as Hugging Face writes it down: the same names, shapes and rotation, so that its weights are a standard folder."""

import json
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn


@dataclass(frozen=True)
class Shape:
    width: int
    layers: int
    heads: int
    kv_heads: int
    hidden: int
    vocabulary: int = 4096
    context: int = 512
    epsilon: float = 1e-5
    theta: float = 10_000.0

    def config(self):
        """config.json of a Hugging Face folder."""
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "attention_bias": False,
            "bos_token_id": 0,
            "eos_token_id": 0,
            "head_dim": self.width // self.heads,
            "hidden_act": "silu",
            "hidden_size": self.width,
            "intermediate_size": self.hidden,
            "max_position_embeddings": self.context,
            "mlp_bias": False,
            "num_attention_heads": self.heads,
            "num_hidden_layers": self.layers,
            "num_key_value_heads": self.kv_heads,
            "rms_norm_eps": self.epsilon,
            "rope_theta": self.theta,
            "tie_word_embeddings": True,
            "torch_dtype": "bfloat16",
            "vocab_size": self.vocabulary,
        }


def rotation(shape, length, device):
    """Cosines and sines of every position, the same for both halves of a head."""
    size = shape.width // shape.heads
    frequencies = shape.theta ** (-torch.arange(0, size, 2, device=device, dtype=torch.float32) / size)
    angles = torch.outer(torch.arange(length, device=device, dtype=torch.float32), frequencies)
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos(), angles.sin()


def rotate(x, cosines, sines):
    lower, upper = x.chunk(2, dim=-1)
    return (x * cosines + torch.cat([-upper, lower], dim=-1) * sines).to(x.dtype)


class Norm(nn.Module):
    def __init__(self, width, epsilon):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x):
        return F.rms_norm(x.float(), self.weight.shape, self.weight, self.epsilon).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.size = shape.width // shape.heads
        self.q_proj = nn.Linear(shape.width, shape.heads * self.size, bias=False)
        self.k_proj = nn.Linear(shape.width, shape.kv_heads * self.size, bias=False)
        self.v_proj = nn.Linear(shape.width, shape.kv_heads * self.size, bias=False)
        self.o_proj = nn.Linear(shape.heads * self.size, shape.width, bias=False)

    def heads(self, x, cosines, sines):
        """Queries, keys and values, rotated."""
        split = lambda y: y.unflatten(-1, (-1, self.size)).transpose(1, 2)
        q, k, v = split(self.q_proj(x)), split(self.k_proj(x)), split(self.v_proj(x))
        return rotate(q, cosines, sines), rotate(k, cosines, sines), v

    def forward(self, x, cosines, sines):
        q, k, v = self.heads(x, cosines, sines)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(mixed.transpose(1, 2).flatten(-2))


class Perceptron(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.gate_proj = nn.Linear(shape.width, shape.hidden, bias=False)
        self.up_proj = nn.Linear(shape.width, shape.hidden, bias=False)
        self.down_proj = nn.Linear(shape.hidden, shape.width, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.input_layernorm = Norm(shape.width, shape.epsilon)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = Norm(shape.width, shape.epsilon)
        self.mlp = Perceptron(shape)

    def forward(self, x, cosines, sines):
        x = x + self.self_attn(self.input_layernorm(x), cosines, sines)
        return x + self.mlp(self.post_attention_layernorm(x))


class Body(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = Norm(shape.width, shape.epsilon)


class Llama(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.model = Body(shape)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                last = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(weight, std=0.02 / ((2 * shape.layers) ** 0.5 if last else 1.0))

    @classmethod
    def open(cls, folder):
        """From a folder, to be computed with in f32."""
        config = json.loads((folder / "config.json").read_text())
        names = {"width": "hidden_size", "layers": "num_hidden_layers", "heads": "num_attention_heads"}
        names |= {"kv_heads": "num_key_value_heads", "hidden": "intermediate_size", "vocabulary": "vocab_size"}
        names |= {"context": "max_position_embeddings", "epsilon": "rms_norm_eps", "theta": "rope_theta"}
        model = cls(Shape(**{field: config[name] for field, name in names.items()}))
        model.load_state_dict(load_file(folder / "model.safetensors"))
        return model.float().eval().requires_grad_(False)

    def states(self, tokens, exits=()):
        """The normed states after the last layer, and after the layers named."""
        cosines, sines = rotation(self.shape, tokens.shape[1], tokens.device)
        x = self.model.embed_tokens(tokens)
        early = []
        for number, layer in enumerate(self.model.layers, start=1):
            x = layer(x, cosines, sines)
            if number in exits:
                early.append(self.model.norm(x))
        return self.model.norm(x), early

    def logits(self, states):
        return F.linear(states, self.model.embed_tokens.weight)

    def weights(self):
        """The weights as they are kept: bf16, the head tied to the embedding."""
        return {name: weight.detach().to("cpu", torch.bfloat16).contiguous() for name, weight in self.state_dict().items()}
