echo "not closed
