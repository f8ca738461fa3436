onedraw generate --beams=3 --n=3 --max-tokens=8 -- 'Tom saw a big'
