curl http://127.0.0.1:8080/v1/completions -H 'content-type: application/json' -d '{"max_tokens":12,"seed":7,"prompt":"Tom saw a big"}'
