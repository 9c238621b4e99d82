# Run a command as a container does: as the user nobody, without a home directory, on a read-only root with one writable volume.
# Usage, as root in a mount namespace of its own: container.sh ROOT VOLUME "DIRECTORY..." COMMAND...
# ROOT is an empty directory. VOLUME is the path of the volume inside. Each DIRECTORY of the machine is there, read-only.
set -euo pipefail
root=$1 volume=$2 directories=$3
shift 3

mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$root"
for directory in $directories; do
  mkdir -p "$root$directory"
  mount --bind "$directory" "$root$directory"
  mount -o remount,bind,ro "$root$directory"
done
mkdir -p "$root/proc" "$root/dev" "$root$volume"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=700,uid=65534,gid=65534 tmpfs "$root$volume"
mount -o remount,ro "$root"
exec chroot --userspec=65534:65534 --groups= "$root" /usr/bin/env -u HOME "$@"
