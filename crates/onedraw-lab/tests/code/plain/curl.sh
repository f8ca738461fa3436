curl http://127.0.0.1:8080/v1/completions -H 'content-type: application/json' -d '{"max_tokens":24,"seed":18446744073709551615,"prompt":"Tom'\''s \"big\" dog"}'
