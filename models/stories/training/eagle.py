"""A head of one or more layers that guesses ahead from the target's own features (Li, Wei, Zhang, Zhang, EAGLE, 2024).

At position t it is given the target's state after the last norm, f(t), and the embedding of token t + 1, which was drawn from it; both become one
vector, the layers attend to all earlier ones, and what comes out stands for f(t + 1): the target's own head turns it into logits for token t + 2. Its own output
is its next feature where the target has not been asked yet, and it is trained on that too (training-time test, as in EAGLE-3, 2025).
"""

import torch
import torch.nn.functional as F
from torch import nn

from llama import Layer, Norm, rotation


class Eagle(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.fc = nn.Linear(2 * shape.width, shape.width, bias=False)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = Norm(shape.width, shape.epsilon)
        for weight in self.parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=0.02)

    def forward(self, features, embeddings, depth, earlier):
        """Features for the next position. `earlier` holds for each layer the keys and values of the depths before: the line that began at position t
        sees the true features up to t, and after that its own guesses, one a depth."""
        cosines, sines = rotation(self.shape, features.shape[1] + depth, features.device)
        cosines, sines = cosines[depth:], sines[depth:]
        x, now = self.fc(torch.cat([features, embeddings], dim=-1)), []
        for layer, before in zip(self.layers, earlier):
            q, k, v = layer.self_attn.heads(layer.input_layernorm(x), cosines, sines)
            now.append(before + [(k, v)])
            x = x + layer.self_attn.o_proj(self.attend(q, now[-1]).transpose(1, 2).flatten(-2))
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return self.norm(x), now

    @staticmethod
    def attend(q, earlier):
        """The line that began at t attends to the true positions up to t, and to its own guesses: the same place of every later depth."""
        (k, v), guesses = earlier[0], earlier[1:]
        groups = q.shape[1] // k.shape[1]
        widen = lambda x: x.repeat_interleave(groups, dim=1)
        length, scale = q.shape[2], q.shape[3] ** -0.5
        scores = (q @ widen(k).transpose(-1, -2)).float() * scale
        causal = torch.ones(length, length, dtype=torch.bool, device=q.device).tril()
        scores = scores.masked_fill(~causal, float("-inf"))
        own = [((q * widen(key)).sum(-1, keepdim=True)).float() * scale for key, _ in guesses]
        shares = torch.cat([scores, *own], dim=-1).softmax(-1).to(q.dtype)
        mixed = shares[..., :length] @ widen(v)
        for i, (_, value) in enumerate(guesses):
            mixed = mixed + shares[..., length + i : length + i + 1] * widen(value)
        return mixed

    def ahead(self, features, embeddings, depths):
        """What it guesses at each depth. Position t of a depth began at t: it has seen token t + 1 + depth and guesses token t + 2 + depth."""
        earlier = [[] for _ in self.layers]
        for depth in range(depths):
            length = embeddings.shape[1] - depth - 1
            earlier = [[(k[:, :, :length], v[:, :, :length]) for k, v in layer] for layer in earlier]
            features, earlier = self(features[:, :length], embeddings[:, depth + 1 :], depth, earlier)
            yield features

    def loss(self, target, tokens, features, depths):
        """How far its guesses are from the target's own distributions, over several depths."""
        with torch.no_grad():
            truth = F.log_softmax(target.logits(features).float(), dim=-1)
        total = 0.0
        for depth, given in enumerate(self.ahead(features, target.model.embed_tokens(tokens), depths)):
            guess = F.log_softmax(target.logits(given).float(), dim=-1)
            total = total + F.kl_div(guess, truth[:, depth + 1 :], log_target=True, reduction="sum") / guess[..., 0].numel()
        return total / depths

    def config(self):
        return {
            "architectures": ["EagleHead"],
            "model_type": "eagle",
            "hidden_size": self.shape.width,
            "intermediate_size": self.shape.hidden,
            "num_attention_heads": self.shape.heads,
            "num_key_value_heads": self.shape.kv_heads,
            "num_hidden_layers": self.shape.layers,
            "rms_norm_eps": self.shape.epsilon,
            "rope_theta": self.shape.theta,
            "max_position_embeddings": self.shape.context,
            "torch_dtype": "bfloat16",
        }

    def weights(self):
        """As they are kept: a layer that is the only one has no number."""
        kept = lambda name: name.replace("layers.0.", "layer.") if len(self.layers) == 1 else name
        return {kept(name): weight.detach().to("cpu", torch.bfloat16).contiguous() for name, weight in self.state_dict().items()}
