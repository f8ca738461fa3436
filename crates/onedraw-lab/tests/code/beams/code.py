import onedraw

generator = onedraw.Generator()
params = {"eos_token_id": [0], "max_tokens": 8, "n": 3, "order": ["logit_bias", "penalties", "no_repeat_ngram", "bad_words", "min_tokens", "allowed", "temperature", "top_k", "top_p", "min_p", "typical", "epsilon", "eta"], "temperature": 0.7, "top_k": 50, "top_p": 0.9}
for found in generator.beams("Tom saw a big", params, width=3):
    print(found.text)
