rm "$WORLD/two.txt"
