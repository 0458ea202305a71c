mkdir "$WORLD/site"; printf a > "$WORLD/site/a"
