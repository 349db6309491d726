# The first answer is too short.
cat > /dev/null
echo asked >> asked
if [ "$(wc -l < asked)" -lt 2 ]; then
  echo '{"title": "Summary, tbd", "language": "en", "points": ["too short"]}'
else
  echo '{"title": "Summary of the meeting", "language": "en-GB", "points": ["The budget stays", "The release moves to May", "Ana writes the notes"]}'
fi
