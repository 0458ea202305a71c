echo changed by hand > "$WORLD/one.txt"
rm "$WORLD/gone.txt"
echo changed by hand > "$WORLD/ignored.txt"
echo changed by hand > "$WORLD/secret.txt"
