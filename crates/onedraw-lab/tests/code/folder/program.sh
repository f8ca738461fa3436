onedraw generate --model '../../models/stories' --max-tokens=12 --seed=7 -- 'Tom saw a big'
