# Stands in for an agent: removes the last two words and answers as JSON.
tail -n 1 | awk '{ NF -= 2; printf "{\"text\": \"%s\", \"comment\": \"two words shorter\"}\n", $0 }'
