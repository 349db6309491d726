#!/bin/sh
# An MCP server of a few tools, for tests. It notes each of its processes in `pids`, and each call in `calls`.
echo $$ >> pids
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
say() { answer "{\"content\":[{\"type\":\"text\",\"text\":\"$1\"}]}"; }
echo "not a message"
while read -r line; do
  id=${line#*'"id":'}
  id=${id%%,*}
  case $line in *'"method":"tools/call"'*) printf '%s\n' "$line" >> calls ;; esac
  case $line in
    *'"method":"initialize"'*)
      answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"tests","version":"1.2.3"}}' ;;
    *'"method":"tools/list"'*'"cursor"'*)
      answer '{"tools":[{"name":"slow","inputSchema":{"type":"object"}},{"name":"die","inputSchema":{"type":"object"}},{"name":"ask","inputSchema":{"type":"object"}},{"name":"pid","inputSchema":{"type":"object"}}]}' ;;
    *'"method":"tools/list"'*)
      answer '{"nextCursor":"more","tools":[{"name":"add","description":"Adds two numbers","inputSchema":{"type":"object","properties":{"a":{"type":"integer","description":"the first"},"b":{"type":"integer"}},"required":["a"],"additionalProperties":false}},{"name":"texts","inputSchema":{"type":"object"}},{"name":"fail","inputSchema":{"type":"object"}},{"name":"refuse","inputSchema":{"type":"object"}}]}' ;;
    *'"name":"add"'*)
      answer '{"content":[{"type":"text","text":"{}"}],"structuredContent":{"sum":9007199254740993.10,"of":["a"]}}' ;;
    *'"name":"texts"'*'"count":1'*) say one ;;
    *'"name":"texts"'*'"count":0'*) answer '{"content":[]}' ;;
    *'"name":"texts"'*)
      answer '{"content":[{"type":"text","text":"one"},{"type":"text","text":"two"},{"type":"image","data":"","mimeType":"image/png"}]}' ;;
    *'"name":"fail"'*)
      answer '{"isError":true,"content":[{"type":"text","text":"no such file"},{"type":"text","text":"try another"}]}' ;;
    *'"name":"refuse"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"not today"}}\n' "$id" ;;
    *'"name":"slow"'*) ;;
    *'"name":"die"'*) echo "out of memory" >&2; exit 3 ;;
    *'"name":"pid"'*) say $$ ;;
    *'"name":"ask"'*)
      call=$id
      printf '{"jsonrpc":"2.0","id":"p1","method":"ping"}\n{"jsonrpc":"2.0","id":77,"method":"sampling/createMessage"}\n'
      read -r ping
      read -r sampling
      id=$call
      case "$ping$sampling" in
        *'"id":"p1","result":{}'*'"id":77,"error"'*) say answered ;;
        *) say "$ping" ;;
      esac ;;
    *'"method":"notifications/'*) printf '%s\n' "$line" >> notified ;;
    *) printf '%s\n' "$line" >> unknown ;;
  esac
done
