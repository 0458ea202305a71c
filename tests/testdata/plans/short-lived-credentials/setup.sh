printf 1ms > "$WORLD/token"
