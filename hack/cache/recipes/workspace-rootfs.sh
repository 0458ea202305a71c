# shellcheck shell=bash disable=SC2034
# A small Debian with git as layer.tar: the first layer of the workspace and
# git server images. Root only. Packages come from the machine's own mirror.
version=$DEBIAN_SUITE
inputs=()
takes="75 s"

build() {
  need_linux_root "building the workspace's root file system"
  need_packages debootstrap
  local root=$1/.root mirror
  mirror=$(debian_mirror)
  [ -n "$mirror" ] || die "found no Debian mirror in /etc/apt/sources.list or sources.list.d"
  # What it mounts goes with its namespace, even if it is killed.
  if ! unshare --mount debootstrap --variant=minbase --include=git,ca-certificates,openssh-client \
    "$DEBIAN_SUITE" "$root" "$mirror" > "$1/debootstrap.log" 2>&1; then
    tail -20 "$1/debootstrap.log"
    return 1
  fi
  # What a pod never reads; the copyright files must stay.
  find "$root/usr/share/doc" -type f ! -name copyright -delete
  find "$root/usr/share/doc" -depth -type d -empty -delete
  rm -rf "$root"/usr/share/{man,info,locale,lintian} "$root"/var/cache/* "$root"/var/lib/apt/lists/* \
    "$root"/var/log/* "$root"/etc/apt/sources.list "$root"/etc/hostname "$root"/etc/resolv.conf
  # git, ssh and Pulumi's file backend look their user up by uid.
  echo 'pulumi:x:1000:1000:Pulumi:/home/pulumi:/bin/bash' >> "$root/etc/passwd"
  echo 'pulumi:x:1000:' >> "$root/etc/group"
  install -d -o 1000 -g 1000 -m 755 "$root/home/pulumi"
  tar -C "$root" --sort=name --mtime=@0 --numeric-owner --exclude='./dev/*' --exclude='./proc/*' --exclude='./sys/*' \
    -cf "$1/layer.tar" .
  rm -rf "$root"
}

# The first mirror of Debian itself that the machine's apt uses; other vendors'
# sources, which have no such suite, are passed over.
debian_mirror() {
  local file
  for file in /etc/apt/sources.list.d/*.sources /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ -f "$file" ] || continue
    case $file in
      *.sources)
        awk -v suite="$DEBIAN_SUITE" '
          /^URIs:/ { uri = $2 }
          /^Suites:/ { for (i = 2; i <= NF; i++) if ($i == suite) has = 1 }
          /^[[:space:]]*$/ { if (uri != "" && has) { print uri; exit } uri = ""; has = 0 }
          END { if (uri != "" && has) print uri }' "$file"
        ;;
      *)
        awk -v suite="$DEBIAN_SUITE" '$1 == "deb" {
          sub(/\[[^]]*\]/, ""); if ($3 == suite) { print $2; exit } }' "$file"
        ;;
    esac
  done | sed -n 1p
}
