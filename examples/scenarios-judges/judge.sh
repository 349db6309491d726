cat > /dev/null
printf '{"met": %s, "reason": "it quotes", "evidence": ["%s"]}\n' "$1" "$2"
