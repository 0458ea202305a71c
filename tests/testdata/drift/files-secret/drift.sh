echo another secret canary-by-hand > "$WORLD/one.txt"
