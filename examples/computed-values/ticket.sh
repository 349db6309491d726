# A kind of computed value: reads its argument as JSON from stdin, writes the value as JSON to stdout.
read -r key
printf '{"key": %s, "title": "Login fails", "owner": "Ana"}\n' "$key"
