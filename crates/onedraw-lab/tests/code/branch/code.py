import onedraw

generator = onedraw.Generator()
params = {"eos_token_id": [0], "max_tokens": 24, "order": ["logit_bias", "penalties", "no_repeat_ngram", "bad_words", "min_tokens", "allowed", "temperature", "top_k", "top_p", "min_p", "typical", "epsilon", "eta"], "seed": 7, "temperature": 0.7, "top_k": 50, "top_p": 0.9}
print(generator.generate("Tom saw a big", params).text)
