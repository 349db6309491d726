# Stands in for an agent that works on files: those of the item's worktree.
read -r file from to
if [ -z "$to" ]; then : > "$file"; else sed -i "s/$from/$to/g" "$file"; fi
echo "changed $file"
