printf %s '{"type":"object","properties":{"name":{"type":"string","maxLength":8},"age":{"type":"integer","minimum":0,"maximum":9}},"required":["name","age"],"additionalProperties":false}' > schema.json
onedraw generate --max-tokens=60 --seed=7 --json-schema schema.json -- 'The dog is '
