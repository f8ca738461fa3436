"""Answers the benchmark's questions, a line of JSON each, on standard input and output."""

import json
import sys
import time

import numpy
import torch

import sampler

# Fewer draws than this are not a measurement; the same as the benchmark's stopwatch.
FEWEST = 5


class Server:
    def __init__(self):
        self.rows = None
        torch.manual_seed(1)

    def version(self):
        return torch.__version__

    def load(self, path, vocabulary):
        self.rows = torch.from_numpy(numpy.fromfile(path, dtype="<f4").reshape(-1, vocabulary))
        return len(self.rows)

    def known(self, params):
        return sampler.chain(params) is not None

    def times(self, params, rows, position, warm_up, draws, at_most, batch, threads):
        """Microseconds of each draw; the rows are gone through in a circle, `batch` of them at a time."""
        torch.set_num_threads(threads)
        apply = sampler.chain(params)
        times = []
        windows = [self.rows[row:row + batch] for row in rows] if batch == 1 else list(self.rows.split(batch))
        windows = [window for window in windows if len(window) == batch]
        begin = None
        for draw in range(warm_up + draws):
            window = windows[(position + draw) % len(windows)]
            if draw == warm_up:
                begin = time.perf_counter()
            start = time.perf_counter()
            sampler.sample(params, apply, window)
            end = time.perf_counter()
            if begin is not None:
                times.append((end - start) * 1e6)
                if end - begin > at_most and len(times) >= FEWEST:
                    break
        return times

    def answer(self, params, row, path):
        """Writes the tokens that are left and their probabilities."""
        logits = self.rows[row:row + 1]
        if params.get("temperature") == 0:
            tokens = sampler.sample(params, sampler.chain(params), logits)[0].numpy()
            probabilities = numpy.ones(1)
        else:
            left = sampler.chain(params)(logits)[0]
            tokens = (left > -torch.inf).nonzero()[:, 0].numpy()
            probabilities = left.softmax(dim=-1).numpy()[tokens]
        numpy.concatenate((tokens.astype("<f8"), probabilities.astype("<f8"))).tofile(path)
        return len(tokens)

    def logprobs(self, params, row):
        """The tokens and logprobs that a draw lists, without those that were removed."""
        _, (logprobs, ids, _) = sampler.sample(params, sampler.chain(params), self.rows[row:row + 1])
        listed = zip(ids[0].tolist(), logprobs[0].tolist())
        return [(token, logprob) for token, logprob in listed if logprob > -torch.inf]


def main():
    server = Server()
    with torch.inference_mode():
        for line in sys.stdin:
            question = json.loads(line)
            answer = getattr(server, question.pop("ask"))(**question)
            print(json.dumps(answer), flush=True)


main()
