# Stands in for an agent: counts the lines it was given and answers as JSON.
lines=$(grep -c .)
echo "{\"score\": $((80 + lines)), \"comment\": \"looks fine\"}"
