curl http://127.0.0.1:8080/v1/completions -H 'content-type: application/json' -d '{"logit_bias":{"300":5.5,"412":-100.0},"max_tokens":24,"seed":7,"prompt":"Tom saw a big"}'
