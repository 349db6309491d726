# Stands in for an agent whose confidence grows each time.
case $(cat) in
  *"attempt 1"*) echo '{"verdict": "no", "confidence": 0.2, "evidence": "the scan is blurred"}' ;;
  *"attempt 2"*) echo '{"verdict": "no", "confidence": 0.5, "evidence": "a stamp, unreadable"}' ;;
  *) echo '{"verdict": "yes", "confidence": 0.8, "evidence": "stamped PAID"}' ;;
esac
