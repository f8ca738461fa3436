import onedraw

generator = onedraw.Generator()
params = {"eos_token_id": [0], "max_tokens": 24, "min_p": 0.05, "order": ["min_p", "temperature", "top_k", "top_p", "penalties"], "seed": 7, "temperature": 1.3, "top_k": 20, "top_p": 0.9}
print(generator.generate("Tom saw a big", params).text)
