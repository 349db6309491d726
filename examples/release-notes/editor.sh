# Stands in for an agent: the message comes on stdin, the answer goes to stdout.
read -r task
echo "$task"
sed 's/^/* /'
