import onedraw

generator = onedraw.Generator()
params = {"eos_token_id": [0], "max_tokens": 12, "n": 2, "order": ["logit_bias", "penalties", "no_repeat_ngram", "bad_words", "min_tokens", "allowed", "temperature", "top_k", "top_p", "min_p", "typical", "epsilon", "eta"], "repetition_penalty": 1.1, "temperature": 0.7, "top_k": 50, "top_p": 0.9}
grammar = onedraw.Grammar.json_schema(generator.vocabulary(), "{\"enum\":[\"yes\",\"no\",\"maybe\"]}")
for found in generator.beams("Is it? ", params, width=2, style="gnmt", length_penalty=0.5, grammar=grammar):
    print(found.text)
