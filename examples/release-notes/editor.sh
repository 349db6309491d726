# Stands in for an agent: reads the message from stdin, writes the answer to stdout.
read -r task
echo "$task"
sed 's/^/* /'
