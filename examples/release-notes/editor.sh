# Stands in for an agent: the message comes on stdin, the answer goes to stdout.
head -n 1
grep -c . | sed 's/$/ lines to work on/'
