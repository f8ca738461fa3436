"""Sampling in PyTorch, step by step as vLLM 0.32's V1 sampler does it on a CPU without its compiled kernels (v1/sample/).

Typical, epsilon and eta, which vLLM lacks, are written as transformers' logits warpers are. Rows come as [B, V] in f32. The first
step that changes them writes to new memory, so that the caller's rows stay; the others work in place, as vLLM's do.
"""

import torch


def chain(params):
    """The function from rows to the logits that are drawn from, or None where there is no such strategy."""
    known = {"temperature", "top_k", "top_p", "min_p", "repetition_penalty", "frequency_penalty", "presence_penalty",
             "prompt_token_ids", "output_token_ids", "logprobs", "logprobs_mode", "typical_p", "epsilon_cutoff", "eta_cutoff",
             "seed"}
    if set(params) - known:
        return None
    steps = []
    if params.get("output_token_ids"):
        steps.append(penalties(params))
    temperature = params.get("temperature", 1.0)
    if temperature not in (0, 1):
        steps.append(lambda logits: logits / temperature)
    top_k, top_p = params.get("top_k", 0), params.get("top_p", 1.0)
    if not steps and (params.get("min_p") or top_k > 0 or top_p < 1.0):
        steps.append(torch.clone)
    if params.get("min_p"):
        steps.append(lambda logits: min_p(logits, params["min_p"]))
    if top_p < 1.0:
        steps.append(lambda logits: top_k_top_p(logits, top_k, top_p))
    elif top_k > 0:
        steps.append(lambda logits: only_top_k(logits, top_k))
    if "typical_p" in params:
        steps.append(lambda logits: typical(logits, params["typical_p"]))
    if "epsilon_cutoff" in params:
        steps.append(lambda logits: epsilon(logits, params["epsilon_cutoff"]))
    if "eta_cutoff" in params:
        steps.append(lambda logits: eta(logits, params["eta_cutoff"]))

    def apply(logits):
        for step in steps:
            logits = step(logits)
        return logits

    return apply


def sample(params, apply, logits):
    """One token a row, and the logprobs that are asked for."""
    count = params.get("logprobs")
    raw = params.get("logprobs_mode", "raw_logprobs") == "raw_logprobs"
    logprobs = logits.log_softmax(dim=-1, dtype=torch.float32) if count is not None and raw else None
    logits = apply(logits)
    if params.get("temperature") == 0:
        tokens = logits.argmax(dim=-1)
    else:
        probabilities = logits.softmax(dim=-1, dtype=torch.float32)
        tokens = probabilities.div_(torch.empty_like(probabilities).exponential_(1.0)).argmax(dim=-1)
    if count is None:
        return tokens, None
    if logprobs is None:
        logprobs = logits.log_softmax(dim=-1, dtype=torch.float32)
    drawn = logprobs.gather(-1, tokens.unsqueeze(-1))
    best, ids = torch.topk(logprobs, count, dim=-1)
    ranks = (logprobs >= drawn).sum(-1)
    return tokens, (torch.cat((drawn, best), dim=-1), torch.cat((tokens.unsqueeze(-1), ids), dim=-1), ranks)


def penalties(params):
    prompt = torch.tensor([params["prompt_token_ids"]])
    output = torch.tensor([params["output_token_ids"]])
    repetition, frequency, presence = (params[name + "_penalty"] for name in ("repetition", "frequency", "presence"))

    def counts(tokens, rows, vocabulary):
        counts = torch.zeros((rows, vocabulary + 1), dtype=torch.long)
        return counts.scatter_add_(1, tokens.expand(rows, -1), torch.ones_like(tokens).expand(rows, -1))[:, :vocabulary]

    def apply(logits):
        rows, vocabulary = logits.shape
        in_prompt = counts(prompt, rows, vocabulary) > 0
        in_output = counts(output, rows, vocabulary)
        factors = torch.where(in_prompt | (in_output > 0), repetition, 1.0)
        logits = logits * torch.where(logits > 0, 1.0 / factors, factors)
        logits -= frequency * in_output
        logits -= presence * (in_output > 0)
        return logits

    return apply


def min_p(logits, share):
    probabilities = logits.softmax(dim=-1)
    bar = probabilities.amax(dim=-1, keepdim=True) * share
    return logits.masked_fill_(probabilities < bar, -torch.inf)


def only_top_k(logits, k):
    return logits.masked_fill_(logits < logits.topk(k, dim=1).values[:, -1:], -torch.inf)


def top_k_top_p(logits, k, p):
    ascending, order = logits.sort(dim=-1, descending=False)
    if k > 0:
        ascending.masked_fill_(ascending < ascending[:, -k].unsqueeze(-1), -torch.inf)
    cumulative = ascending.softmax(dim=-1).cumsum_(dim=-1)
    out = cumulative <= 1 - p
    out[:, -1] = False
    ascending.masked_fill_(out, -torch.inf)
    return logits.scatter_(dim=-1, index=order, src=ascending)


def typical(logits, mass):
    logprobs = logits.log_softmax(dim=-1)
    probabilities = logprobs.exp()
    entropy = -(logprobs * probabilities).nansum(-1, keepdim=True)
    distances, order = ((-logprobs) - entropy).abs().sort(descending=False)
    cumulative = logits.gather(-1, order).softmax(dim=-1).cumsum(dim=-1)
    last = (cumulative < mass).sum(dim=1).clamp_(max=distances.shape[-1] - 1)
    out = distances > distances.gather(1, last.view(-1, 1))
    return logits.masked_fill(out.scatter(1, order, out), -torch.inf)


def keep_the_best(logits, out):
    return logits.masked_fill(out & (logits < logits.topk(1)[0][..., -1, None]), -torch.inf)


def epsilon(logits, bar):
    return keep_the_best(logits, logits.softmax(dim=-1) < bar)


def eta(logits, bar):
    probabilities = logits.softmax(dim=-1)
    entropy = torch.distributions.Categorical(logits=logits).entropy()
    bar = torch.tensor(bar)
    return keep_the_best(logits, probabilities < torch.min(bar, bar.sqrt() * torch.exp(-entropy))[..., None])
