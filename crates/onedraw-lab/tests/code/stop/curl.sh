curl http://127.0.0.1:8080/v1/completions -H 'content-type: application/json' -d '{"include_stop_str_in_output":true,"max_tokens":60,"seed":7,"stop":["named","."],"prompt":"Once upon a time"}'
