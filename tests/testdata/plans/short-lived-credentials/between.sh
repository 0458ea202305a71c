printf 2ms > "$WORLD/token"
