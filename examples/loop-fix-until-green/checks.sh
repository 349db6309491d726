# Names the first misspelt word of the text: file, wrong, right.
for pair in teh:the recieve:receive adress:address; do
  wrong=${pair%%:*} right=${pair##*:}
  if grep -q "$wrong" letter.txt; then
    echo "letter.txt $wrong $right"
    exit 1
  fi
done
echo "nothing to mend"
