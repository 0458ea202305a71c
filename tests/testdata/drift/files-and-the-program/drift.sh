echo changed by hand > "$WORLD/one.txt"
