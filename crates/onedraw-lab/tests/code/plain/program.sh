onedraw generate --max-tokens=24 --seed=18446744073709551615 -- 'Tom'\''s "big" dog'
