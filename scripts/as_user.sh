#!/bin/sh
# The native tests as an ordinary user who is nobody in particular: as_user.sh PYTHON, run as root.
#
# A copy of the work tree, uncommitted files included, in a directory that this user owns; a virtual environment made and
# filled by the user, not editable, so that the wheel is what is tested. The directory goes away whatever happens. Exits as
# pytest does: also with 5, when there was no test to run.
set -eu
ID=54321 # in no passwd file: no name, no groups, no home but the one given here

python=${1:?usage: as_user.sh PYTHON}
[ "$(id -u)" = 0 ] || { echo "as_user.sh: only root can become another user" >&2; exit 2; }
cd "$(dirname "$0")/.."

umask 022
top=$(mktemp -d /tmp/isandbox-as-user.XXXXXX)
trap 'rm -rf "$top"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

as_user() { # environment assignments first, then the command
  # Not with no_new_privs: that would hide what set-user-id programs can do to a user who has none.
  setpriv --reuid "$ID" --regid "$ID" --clear-groups --inh-caps=-all \
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME="$top/home" LANG=C.UTF-8 "$@"
}

files() { # the tree's files, NUL-terminated: tracked and new ones, not the ignored; without git (an sdist) all of them
  if [ -e .git ]; then
    git -c safe.directory="$PWD" ls-files -coz --exclude-standard
  else
    find . -name '.venv*' -prune -o -name __pycache__ -prune -o -path ./backends/isandbox_backends/_bin -prune -o \
      '(' -type f -o -type l ')' -print0
  fi
}

mkdir "$top/src" "$top/home"
# A file that is tracked but deleted is listed all the same.
files | xargs -0 sh -c 'for f; do if [ -e "$f" ] || [ -L "$f" ]; then printf "%s\0" "$f"; fi; done' sh |
  tar -cf "$top/tree.tar" --null -T -
tar -xf "$top/tree.tar" -C "$top/src" --no-same-owner
rm "$top/tree.tar"
[ -f "$top/src/pyproject.toml" ] || { echo "as_user.sh: nothing was copied" >&2; exit 2; }
chown -hR "$ID:$ID" "$top"

as_user "$python" -c '' 2>/dev/null || {
  echo "as_user.sh: an ordinary user cannot run $python: give one outside closed directories, such as /usr/bin/python3" >&2
  exit 2
}

# How pip reaches its packages is this machine's business: its settings go along, for pip only.
set --
for name in $(env | sed -n 's/^\(PIP_[A-Za-z0-9_]*\|[a-z]*_proxy\|[A-Z]*_PROXY\)=.*/\1/p'); do
  eval "set -- \"\$@\" \"$name=\$$name\""
done

cd "$top/src"
as_user "$python" -m venv "$top/venv"
as_user "$@" "$top/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-cache-dir '.[dev]'
status=0
as_user "$top/venv/bin/python" -m pytest --numprocesses 2 --dist loadscope -m "native and not full" -p no:cacheprovider || status=$?
[ "$status" != 5 ] || echo "as_user.sh: no native test was found" >&2
exit "$status"
