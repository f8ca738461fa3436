onedraw generate --max-tokens=30 --seed=7 --params '{"bad_words":["Tom"],"banned_strings":[" was"," a"]}' -- 'Tom saw a big'
