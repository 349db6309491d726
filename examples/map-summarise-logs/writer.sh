# Stands in for an agent: prints the first line of its message, and the noisiest log.
read -r task
echo "$task"
LC_ALL=C sort -t: -k2,2nr | head -n 1 | sed 's/^/Look at /'
