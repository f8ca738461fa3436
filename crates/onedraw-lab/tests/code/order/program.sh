onedraw generate --max-tokens=24 --min-p=0.05 --seed=7 --temperature=1.3 --top-k=20 --params '{"order":["min_p","temperature","top_k","top_p","penalties"]}' -- 'Tom saw a big'
