# Stands in for an agent: answers with the file it was given, without the calls of eval.
sed '1,/^---$/d; s/eval "\(.*\)"/\1/'
