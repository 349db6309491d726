# Answers with the word and the number of its letters, as the form of the answer asks.
read -r word
printf '{"word": "%s", "letters": %s}\n' "$word" "${#word}"
