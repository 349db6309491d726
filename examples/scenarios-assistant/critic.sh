# Plays the judge when answers are recorded.
cat > /dev/null
echo '{"met": true, "reason": "it says until when a refund is possible", "evidence": ["up to 24 hours before departure"]}'
