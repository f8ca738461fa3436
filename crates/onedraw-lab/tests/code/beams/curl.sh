curl http://127.0.0.1:8080/lab/beams -H 'content-type: application/json' -d '{"prompt":"Tom saw a big","params":{"max_tokens":8},"beams":{"width":3},"schema":null}'
