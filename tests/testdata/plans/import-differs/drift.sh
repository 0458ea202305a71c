printf live > "$WORLD/adopted.txt"
