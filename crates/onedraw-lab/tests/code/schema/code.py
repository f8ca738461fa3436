import onedraw

generator = onedraw.Generator()
params = {"eos_token_id": [0], "max_tokens": 60, "order": ["logit_bias", "penalties", "no_repeat_ngram", "bad_words", "min_tokens", "allowed", "temperature", "top_k", "top_p", "min_p", "typical", "epsilon", "eta"], "seed": 7, "temperature": 0.7, "top_k": 50, "top_p": 0.9}
grammar = onedraw.Grammar.json_schema(generator.vocabulary(), "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":8},\"age\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":9}},\"required\":[\"name\",\"age\"],\"additionalProperties\":false}")
print(generator.generate("The dog is ", params, grammar=grammar).text)
