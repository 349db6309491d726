# Echoes its message.
read -r message || true
echo "Done: $message"
