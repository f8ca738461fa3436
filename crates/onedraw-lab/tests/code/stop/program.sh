onedraw generate --include-stop-str-in-output=true --max-tokens=60 --seed=7 --params '{"stop":["named","."]}' -- 'Once upon a time'
