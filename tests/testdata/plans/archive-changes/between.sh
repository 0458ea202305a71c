printf c > "$WORLD/site/a"
