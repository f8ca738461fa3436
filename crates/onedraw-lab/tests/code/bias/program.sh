onedraw generate --max-tokens=24 --seed=7 --params '{"logit_bias":{"300":5.5,"412":-100.0}}' -- 'Tom saw a big'
