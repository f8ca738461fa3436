curl http://127.0.0.1:8080/v1/completions -H 'content-type: application/json' -d '{"bad_words":["Tom"],"banned_strings":[" was"," a"],"max_tokens":30,"seed":7,"prompt":"Tom saw a big"}'
