printf b > "$WORLD/site/a"
