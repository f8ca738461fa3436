"""A decode loop written by hand: a model in PyTorch, onedraw for the tokens.

    python examples/python/torch_loop.py [FOLDER] [--prompt TEXT] [--tokens N]

FOLDER holds a causal model in Hugging Face's layout; without one it is the small model of stories in this repository. Four texts after one prompt are drawn in one
batch, each with its own parameters; the first is printed as it comes, the others at the end. Needs `pip install onedraw[transformers]`.
"""

import argparse
from pathlib import Path
from typing import Any

import onedraw
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

STORIES = Path(__file__).parents[2] / "models" / "stories"

# Each row has its own parameters and seed; what a row draws depends on no other.
WRITERS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0, "seed": 0},
    "warm": {"temperature": 1.2, "min_p": 0.05, "seed": 1},
    "narrow": {"temperature": 0.7, "top_p": 0.9, "repetition_penalty": 1.2, "seed": 2},
    "one sentence": {"temperature": 0.8, "seed": 3, "stop": ["."], "include_stop_str_in_output": True},
}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", nargs="?", default=STORIES)
    arguments.add_argument("--prompt", default="Once upon a time")
    arguments.add_argument("--tokens", type=int, default=60)
    asked = arguments.parse_args()

    tokenizer = AutoTokenizer.from_pretrained(asked.folder)
    model = AutoModelForCausalLM.from_pretrained(asked.folder).eval()
    # onedraw's reading of the same tokenizer knows the bytes of a token, of which a character may need several.
    table = onedraw.Tokenizer.from_json(tokenizer.backend_tokenizer.to_str())
    prompt = tokenizer.encode(asked.prompt)

    batch = onedraw.Batch()
    common = {"max_tokens": asked.tokens, "eos_token_id": tokenizer.eos_token_id, "prompt_token_ids": prompt}
    params = [onedraw.SamplingParams(**common, **own) for own in WRITERS.values()]
    sequences = [batch.add(one) for one in params]
    matchers = [onedraw.StopMatcher(one) for one in params]
    streams = [onedraw.Utf8Stream() for _ in params]
    texts, ends = ["" for _ in params], ["" for _ in params]

    print(f"[{next(iter(WRITERS))}] {asked.prompt}", end="")
    going = list(range(len(params)))
    tokens, cache = torch.tensor([prompt] * len(params)), None
    with torch.inference_mode():
        while going:
            output = model(tokens.to(model.device), past_key_values=cache, use_cache=True)
            # The rows stay where they are and as they are, bfloat16 and all: onedraw reads the tensor through DLPack.
            logits = output.logits[:, -1].cpu()
            drawn = batch.sample([sequences[row] for row in going], logits)

            still = []
            for place, (row, sampled) in enumerate(zip(going, drawn)):
                progress = matchers[row].push(sampled.token, table.bytes(sampled.token))
                piece = streams[row].push(progress.text)
                if progress.finish_reason is None:
                    still.append(place)
                else:
                    piece += streams[row].finish()
                    ends[row] = f"{progress.finish_reason} after {sampled.position + 1} tokens, seed {sampled.seed}"
                texts[row] += piece
                if row == 0:
                    print(piece, end="", flush=True)

            # Texts that have ended leave, and the cache goes on with the others.
            going = [going[place] for place in still]
            tokens, cache = torch.tensor([[drawn[place].token] for place in still]), output.past_key_values
            cache.reorder_cache(torch.tensor(still, dtype=torch.long, device=model.device))

    print(f"\n({ends[0]})")
    for name, text, end in list(zip(WRITERS, texts, ends))[1:]:
        print(f"\n[{name}] {asked.prompt}{text}\n({end})")


if __name__ == "__main__":
    main()
