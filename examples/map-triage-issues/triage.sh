# Stands in for an agent: one label, as JSON.
read -r task
read -r title
case $title in
*crash* | *"\$("*) echo '{"label": "bug"}' ;;
*\?) echo '{"label": "question"}' ;;
*) echo '{"label": "feature"}' ;;
esac
