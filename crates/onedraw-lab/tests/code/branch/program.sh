onedraw generate --max-tokens=24 --seed=7 -- 'Tom saw a big'
