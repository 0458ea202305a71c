printf live > "$WORLD/one.txt"
