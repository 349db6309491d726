case "$1" in
  *refund*) echo "A refund is possible within 30 days." ;;
  *ours*) echo "We are open from 9 to 5." ;;
  *) echo "That is a question for a colleague." ;;
esac
