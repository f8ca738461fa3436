"""The stories as text and as tokens.

A folder of stories holds `part-*.txt.xz` (training), `heldout.txt.xz` and `real_excerpts.txt.xz` (validation only). Each story is followed by a
line `<|endoftext|>`, which is also token 0: it begins every story and ends it.
"""

import hashlib
import lzma
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

END = "<|endoftext|>"
VOCABULARY = 4096


def stories(path):
    """The stories of one file."""
    text = lzma.open(path, "rt", encoding="utf-8", newline="\n").read()
    return [story.strip("\n") for story in text.split(END) if story.strip("\n")]


def training_stories(folder):
    """All stories to train on, and the hash of their bytes."""
    paths = sorted(Path(folder).glob("part-*.txt.xz"))
    with ProcessPoolExecutor() as pool:
        parts = list(pool.map(stories, paths))
    digest = hashlib.sha256()
    for story in (story for part in parts for story in part):
        digest.update(story.encode() + b"\0")
    return [story for part in parts for story in part], digest.hexdigest()


def train_tokenizer(texts):
    """Byte-level BPE: every byte is a token, so every text can be written."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{END} $A", special_tokens=[(END, 0)])
    return tokenizer


def encode(tokenizer, texts):
    """One line of tokens, every story with its beginning, and the places where they begin."""
    pieces = []
    for first in range(0, len(texts), 20_000):
        batch = tokenizer.encode_batch_fast(texts[first : first + 20_000])
        pieces.extend(np.array(encoding.ids, dtype=np.uint16) for encoding in batch)
    starts = np.cumsum([0] + [len(piece) for piece in pieces[:-1]])
    return np.concatenate(pieces), starts
