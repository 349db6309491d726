# Stands for a model: the more it was told, the more it writes.
said=$(grep -c '"content"')
case $said in
  0) echo 'It is faster.' ;;
  1) echo 'It is faster: imports take half the time.' ;;
  *) echo 'It is faster: imports take half the time. Nothing has to be changed.' ;;
esac
