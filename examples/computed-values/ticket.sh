# A kind of computed value: the argument comes as JSON on stdin, the value goes as JSON to stdout.
read -r key
printf '{"key": %s, "title": "Login fails", "owner": "Ana"}\n' "$key"
