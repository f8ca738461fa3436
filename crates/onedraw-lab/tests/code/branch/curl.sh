curl http://127.0.0.1:8080/lab/write -H 'content-type: application/json' -d '{"prompt":"Tom saw a big","params":{"max_tokens":24,"seed":7},"forced":[{"position":2,"token":300}],"schema":null}'
