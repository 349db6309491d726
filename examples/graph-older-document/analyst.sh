# Answers what it is told.
read -r message || true
echo "Done: $message"
