#!/bin/sh
# The native tests as an ordinary user who is nobody in particular: as_user.sh PYTHON, run as root. After them those of what
# differs for a user with a name and subordinate ids. as_user.sh PYTHON full: the long ones instead, of both.
#
# A copy of the work tree, uncommitted files included, in a directory that this user owns; a virtual environment made and
# filled by the user, not editable, so that the wheel is what is tested. The directory goes away whatever happens. Exits as
# pytest does: also with 5, when there was no test to run.
set -eu
ID=54321 # in no passwd file: no name, no groups, no home but the one given here

python=${1:?usage: as_user.sh PYTHON [full]}
long=${2:-}
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

as_user_with_ids() { # the same user with a name, subordinate ids and one more group, by files that nobody else sees
  unshare --mount --propagation private sh -c '
    set -eu
    id=$1 top=$2
    shift 2
    mkdir "$top/etc"
    cp /etc/passwd /etc/group "$top/etc"
    echo "tester:x:$id:$id::$top/home:/bin/sh" >> "$top/etc/passwd"
    echo "tester:x:$id:" >> "$top/etc/group"
    for file in subuid subgid; do echo "tester:$((id * 16)):65536" > "$top/etc/$file"; done
    for file in passwd group subuid subgid; do mount --bind "$top/etc/$file" "/etc/$file"; done
    exec setpriv --reuid "$id" --regid "$id" --groups "$id,$((id + 1))" --inh-caps=-all \
      env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME="$top/home" LANG=C.UTF-8 "$@"
  ' sh "$ID" "$top" "$@"
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
if [ "$long" != full ]; then
  as_user "$top/venv/bin/python" -m pytest --numprocesses 3 --dist loadscope -m "native and not full" -p no:cacheprovider || status=$?
  [ "$status" != 5 ] || echo "as_user.sh: no native test was found" >&2
else
  as_user "$top/venv/bin/python" -m pytest --numprocesses 2 --dist loadscope -m full -p no:cacheprovider \
    tests/security/test_mutants.py tests/backends/detached tests/isandbox/cli/life || status=$?
fi

if ! command -v newuidmap >/dev/null || ! [ -e /etc/subuid ] || ! [ -e /etc/subgid ]; then
  echo "as_user.sh: no tests with subordinate ids: apt-get install uidmap; touch /etc/subuid /etc/subgid" >&2
  [ -z "${CI:-}" ] || exit 2
  exit "$status"
fi
if [ "$long" = full ]; then
  # The table of mutants says what becomes of each for root and for a user with one id; the former's ids are like these.
  set -- -m native tests/contract tests/security tests/backends/helper/test_sanitised_contract.py \
    --deselect tests/security/test_mutants.py::test_all_mutants
else
  set -- -m "native and not full" tests/backends/seccomp/test_subordinate.py
  for name in ids_of_its_own shared_counters reaching_the_keeper who_a_command_is signals_and_death; do
    set -- "$@" "tests/security/test_$name.py"
  done
fi
as_user_with_ids "$top/venv/bin/python" -m pytest --numprocesses 3 --dist loadscope -p no:cacheprovider "$@" || status=$?
exit "$status"
