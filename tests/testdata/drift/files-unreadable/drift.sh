echo changed by hand > "$WORLD/one.txt"
rm "$WORLD/two.txt"
mkdir "$WORLD/two.txt"
