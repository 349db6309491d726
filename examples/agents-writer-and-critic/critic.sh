# Stands for a model: it is content with the third version.
case $(grep -c 'It is faster') in
  1) echo '{"content": false, "wish": "How much faster?"}' ;;
  2) echo '{"content": false, "wish": "Does anything have to be changed?"}' ;;
  *) echo '{"content": true, "wish": ""}' ;;
esac
