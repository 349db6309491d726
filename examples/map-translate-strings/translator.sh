# Stands in for an agent: it loses the placeholder of some strings until it is told about it.
read -r text
read -r task
read -r problem
case "$text$problem" in
"Hello, {name}!") echo "Hallo, Name!" ;;
"Hello, {name}!"?*) echo "Hallo, {name}!" ;;
"Goodbye, {name}."*) echo "Auf Wiedersehen, {name}." ;;
*) echo "Willkommen, {name}" ;;
esac
