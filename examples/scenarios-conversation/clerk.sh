# It counts its own answers in what it is told.
told=$(cat)
case $(printf '%s\n' "$told" | grep -c 'You answered') in
  0) echo "Good morning! Which drink would you like?" ;;
  1) printf '%s\n' "$told" | sed -n 's/.*I would like \(.*\)/One \1. Is that all?/p' ;;
  *) echo "Thank you, this is order number 3." ;;
esac
