# A minimal MCP server with one tool. A real server is a program in any language.
while read -r line; do
  id=${line#*'"id":'}
  id=${id%%,*}
  case $line in
    *'"initialize"'*) result='{"serverInfo":{"name":"books","version":"3.0"}}' ;;
    *'"tools/list"'*)
      result='{"tools":[{"name":"search","description":"Finds books","inputSchema":{"type":"object","properties":{"title":{"type":"string"},"limit":{"type":"integer","minimum":1}},"required":["title"]}}]}' ;;
    *'"title":"nothing"'*) result='{"isError":true,"content":[{"type":"text","text":"no book has this title"}]}' ;;
    *'"tools/call"'*)
      result='{"content":[],"structuredContent":{"shelf":"'$SHELF'","books":[{"title":"One","price":12.50},{"title":"Two","price":7.25}]}}' ;;
    *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
