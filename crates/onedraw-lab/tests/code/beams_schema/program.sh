printf %s '{"enum":["yes","no","maybe"]}' > schema.json
onedraw generate --beams=2 --beam-style=gnmt --length-penalty=0.5 --n=2 --max-tokens=12 --repetition-penalty=1.1 --json-schema schema.json -- 'Is it? '
