# Stands in for an agent: looks for two required statements.
text=$(cat)
case $text in
  *decided*Thursday*) echo '{"verdict": "yes", "confidence": 0.93, "evidence": ["Mara decided", "on Thursday"]}' ;;
  *decided*) echo '{"verdict": "yes", "confidence": 0.4, "evidence": ["Mara decided", "what is not said"]}' ;;
  *) echo '{"verdict": "no", "confidence": 0.9, "evidence": []}' ;;
esac
