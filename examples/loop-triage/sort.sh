# Says what it thinks, and in the last line what it is.
echo "read ${#2} characters"
case $2 in
  *crash*) echo bug ;;
  *"?"*) echo question ;;
  *win*) echo spam ;;
  *) echo "no idea" ;;
esac
