#!/usr/bin/env bash
# usage: tests/clean-room.sh [--keep] [COMMAND...]     as root, on Debian or Ubuntu
#
# Runs COMMAND (default: the gate, .ci/run) in a clone of HEAD inside a fresh minimal system that
# has python3, git and make and nothing else of ours. The system is made
# with debootstrap from this machine's own mirror; apt and pip there are configured as they are here.
# Everything happens in private mount and process namespaces: when this script ends, however it
# ends, its mounts and processes are gone. --keep leaves the folder for a look.
set -euo pipefail
repo=$(cd "$(dirname "$0")/.." && pwd)

die() { echo "clean-room: $*" >&2; exit 1; }

# --- outside -------------------------------------------------------------------------------------

if [[ ${1-} != --inside ]]; then
    [[ $(id -u) == 0 ]] || die "needs root (debootstrap, chroot)."
    keep=
    [[ ${1-} == --keep ]] && { keep=1; shift; }
    if ! command -v debootstrap >/dev/null; then
        echo "clean-room: installing debootstrap with apt-get"
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends debootstrap; } >/dev/null
    fi
    root=$(mktemp -d "${TMPDIR:-/tmp}/clean-room.XXXXXX")
    if [[ $keep ]]; then
        trap 'echo "clean-room: kept $root"' EXIT
    else
        trap 'rm -rf --one-file-system "$root"' EXIT
    fi
    trap 'exit 130' INT TERM
    # A new mount namespace for its mounts, a new process namespace so that no child survives it.
    unshare --mount --propagation private --pid --fork --kill-child -- "$0" --inside "$root" "$@"
    exit
fi

# --- inside the namespaces -----------------------------------------------------------------------

root=$2
shift 2
start=$SECONDS

mirror() { # the first Debian or Ubuntu mirror in this machine's own sources
    { cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | sed -n 's/^deb[[:space:]]*\(\[[^]]*\][[:space:]]*\)\{0,1\}\([^[:space:]]*\).*/\2/p'
      cat /etc/apt/sources.list.d/*.sources 2>/dev/null | sed -n 's/^URIs:[[:space:]]*\([^[:space:]]*\).*/\1/p'
    } | head -n 1
}

show() { # PATH [rw]: the same path inside, read-only unless told otherwise
    [[ -e $1 ]] || return 0
    if [[ -d $1 ]]; then mkdir -p "$root$1"; else mkdir -p "$root$(dirname "$1")"; touch "$root$1"; fi
    mount --bind "$1" "$root$1"
    mount -o remount,bind,ro "$root$1"
}

pip_folders() { # folders that this machine's pip configuration names
    local files=(/etc/pip.conf /etc/xdg/pip/pip.conf ~/.config/pip/pip.conf ~/.pip/pip.conf)
    { cat "${files[@]}" ${PIP_CONFIG_FILE:+"$PIP_CONFIG_FILE"} 2>/dev/null || true
      env | grep -E '^(PIP|UV)_' || true
    } | grep -oE '(file://)?/[^][:space:]"'\'',]+' | while read -r word; do
        path=${word#file://}
        # An index's pages point at files beside it, so its parent folder is needed.
        [[ $word == file://* && $(basename "$path") == simple ]] && path=$(dirname "$path")
        [[ -d $path && $path != / ]] && echo "$path"
    done | sort -u
}

suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
url=$(mirror)
[[ $suite && $url ]] || die "cannot tell this machine's release or mirror from /etc/os-release and /etc/apt."
echo "clean-room: making a minimal $suite in $root"
debootstrap --variant=minbase --include=python3,git,make,ca-certificates \
    "$suite" "$root" "$url" >"$root.log" 2>&1 || { tail -n 20 "$root.log" >&2; rm -f "$root.log"; die "debootstrap failed."; }
rm -f "$root.log"
chmod 755 "$root" # it becomes /, which every user must be able to enter
echo "clean-room: made in $((SECONDS - start)) s"

# The system becomes a real root (pivot_root below), not a chroot: in a chroot `unshare --mount`
# fails, and the practice hosts need that.
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
# apt, names and pip as on this machine. Certificates are copied: packages write there.
show /etc/apt
show /usr/share/keyrings
show /etc/resolv.conf
show /etc/hosts
for file in /etc/pip.conf /etc/xdg/pip/pip.conf ~/.config/pip/pip.conf ~/.pip/pip.conf \
    ${PIP_CONFIG_FILE:+"$PIP_CONFIG_FILE"} ~/.config/uv/uv.toml /etc/uv/uv.toml; do
    show "$file"
done
while read -r folder; do show "$folder"; done < <(pip_folders)
for folder in /etc/ssl/certs /usr/local/share/ca-certificates; do
    [[ -d $folder ]] && mkdir -p "$root$folder" && cp -a "$folder/." "$root$folder/"
done

git clone --quiet --no-local "$repo" "$root/root/ipexctl"
# Only what says how registries are reached goes in from the environment.
kept=()
while IFS= read -r -d '' pair; do
    case $pair in
        PIP_* | UV_* | SSL_CERT_* | REQUESTS_CA_BUNDLE=* | CURL_CA_BUNDLE=* | GIT_SSL_CAINFO=* | \
            http_proxy=* | https_proxy=* | no_proxy=* | HTTP_PROXY=* | HTTPS_PROXY=* | NO_PROXY=*) kept+=("$pair") ;;
    esac
done < <(env -0)
mkdir "$root/.outside"
cd "$root"
pivot_root . .outside
cd /
umount -l /.outside
inside() {
    local began=$SECONDS code=0
    echo "clean-room: \$ $*"
    env -i HOME=/root USER=root LOGNAME=root LANG=C.UTF-8 TERM="${TERM:-dumb}" CI="${CI:-1}" \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "${kept[@]}" \
        sh -c 'cd /root/ipexctl && exec "$@"' sh "$@" </dev/null || code=$?
    echo "clean-room: exit $code after $((SECONDS - began)) s"
    return $code
}

if (($#)); then
    inside "$@"
else
    inside .ci/run
fi
echo "clean-room: all in $((SECONDS - start)) s"
