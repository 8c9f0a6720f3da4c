"""bash and git under the default profile."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from isandbox import Mount, Workspace

pytestmark = pytest.mark.native

Worked = Callable[[Any], str]

BASH = r"""
set -eu
seq 1 1000 | sort -rn | head -1 | tee last
cat <(echo process)
tee >(cat >substituted) <<<here >/dev/null; wait $!; cat substituted
diff <(printf 'a\nb\n') <(printf 'a\nc\n') >/dev/null && exit 1
coproc CAT { cat; }
echo through >&"${CAT[1]}"
read -r answer <&"${CAT[0]}"; echo "$answer"
mkfifo pipe; echo fifo >pipe & cat pipe; wait $!
(trap 'echo trapped' USR1; kill -USR1 $BASHPID)
echo ${BASH_VERSINFO[0]} >/dev/null; ulimit -n
"""


def test_bash_pipes(box: Any, worked: Worked, tools: Callable[..., str]) -> None:
    """Pipes, process substitution, coprocesses, FIFOs and traps of bash work."""
    tools("bash", "bash", cheap=True)
    lines = worked(box.exec(["bash", "-c", BASH], timeout=20)).splitlines()
    assert lines == ["1000", "process", "here", "through", "fifo", "trapped", "1024"]


# A person at a terminal: what is typed, and what is waited for in the answer.
TERMINAL = r"""
import os, pty, select, sys, time
child, terminal = pty.fork()
if child == 0:
    os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
end = time.monotonic() + 20
for typed, wanted in ((b"PS1=; sleep 71\n", None), (b"\x1a", b"Stopped"), (b"bg; jobs -r | wc -l\n", b"1\r\n"),
                      (b"kill %1; wait %1; echo status=$?\n", b"status=143"), (b"sleep 72\n", None), (b"\x03", None),
                      (b"echo interrupted=$?\n", b"interrupted=130"), (b"exit 9\n", None)):
    time.sleep(0.2 if wanted is None or typed == b"\x1a" else 0)
    os.write(terminal, typed)
    seen = b""
    while wanted is not None and wanted not in seen:
        if not select.select([terminal], [], [], max(0, end - time.monotonic()))[0]:
            sys.exit(f"{wanted} did not come: {seen}")
        seen += os.read(terminal, 4096)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_bash_job_control(box: Any, worked: Worked, tools: Callable[..., str]) -> None:
    """At a terminal a job is stopped, put into the background, ended and interrupted, and the shell keeps the terminal."""
    tools("bash", "bash", cheap=True)
    assert worked(box.exec(["python3", "-I", "-c", TERMINAL])) == "9\n"


GIT = """
set -eu
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
git init -q -b main .
echo one >file; git add file; git commit -qm first
git worktree add -q ../tree -b side
(cd ../tree && echo two >>file && git commit -qam second)
git merge -q side
git stash list; git gc -q
git log --format=%s
git -C ../tree status --porcelain
git fsck --strict
"""


def test_git_in_a_workspace_of_its_own(make: Callable[..., Any], worked: Worked, tools: Callable[..., str]) -> None:
    """init, commit, worktree, merge, gc and fsck work."""
    tools("git", "git", cheap=True)
    sandbox = make()
    assert worked(sandbox.exec(f"mkdir repository; cd repository; {GIT}")).splitlines() == ["second", "first"]


def owners(top: Path) -> set[tuple[int, int]]:
    places = [top, *(Path(folder, name) for folder, folders, files in os.walk(top) for name in folders + files)]
    return {(place.lstat().st_uid, place.lstat().st_gid) for place in places}


def test_git_in_a_directory_of_the_host(
    make: Callable[..., Any], worked: Worked, tools: Callable[..., str], host_directory: Path
) -> None:
    """A repository in a mounted workspace belongs, every file of it, to the owner of the directory; a clone of a ro mount works."""
    tools("git", "git", cheap=True)
    wanted = {(host_directory.stat().st_uid, host_directory.stat().st_gid)}
    sandbox = make(workspace=Workspace(str(host_directory)))
    worked(sandbox.exec(GIT.replace("../tree", "tree").replace("git -C tree status --porcelain", "")))
    assert owners(host_directory) == wanted
    assert (host_directory / "tree" / ".git").is_file()
    other = make(mounts=[Mount(str(host_directory), "/repository")])
    cloned = worked(other.exec("git clone -q /repository clone && cd clone && git log --format=%s && cat file"))
    assert cloned.splitlines() == ["second", "first", "one", "two"]
    assert other.exec("cd /repository && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x").exit_code != 0
