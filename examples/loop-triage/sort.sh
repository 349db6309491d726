# Prints its reasoning, and the verdict in the last line.
echo "read ${#2} characters"
case $2 in
  *crash*) echo bug ;;
  *"?"*) echo question ;;
  *win*) echo spam ;;
  *) echo "no idea" ;;
esac
