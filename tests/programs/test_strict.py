"""Programs that run under the strict profile, and how SQLite does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from isandbox.sync import create_sandbox

pytestmark = pytest.mark.native

Worked = Callable[[Any], str]


@pytest.fixture(scope="module")
def strict(sandbox_tmp: Path) -> Iterator[Any]:
    with create_sandbox("seccomp", profile="strict") as sandbox:
        yield sandbox


PYTHON = """
import asyncio, concurrent.futures, json, multiprocessing, os, pathlib, shutil, sqlite3, subprocess, tempfile, threading

def double(n):
    return 2 * n

async def child():
    process = await asyncio.create_subprocess_exec("echo", "async", stdout=asyncio.subprocess.PIPE)
    return (await process.communicate())[0].decode().strip()

found = [subprocess.check_output(["echo", "child"], text=True).strip(), asyncio.run(child())]
with multiprocessing.Pool(2) as pool:
    found.append(pool.map(double, [1, 2]))
with concurrent.futures.ThreadPoolExecutor(4) as threads:
    found.append(sum(threads.map(double, range(100))))
with tempfile.TemporaryDirectory() as top:
    path = pathlib.Path(top, "file")
    path.write_text("text")
    shutil.copy2(path, path.with_suffix(".copy"))
    os.replace(path.with_suffix(".copy"), path)
    found.append(path.read_text())
found.append(sqlite3.connect(":memory:").execute("select 6 * 7").fetchone()[0])
print(json.dumps(found))
"""


def test_python(strict: Any, worked: Worked) -> None:
    """CPython has children, threads, pools of processes, asyncio, temporary files and SQLite in memory."""
    assert worked(strict.exec(["python3", "-I", "-c", PYTHON])) == '["child", "async", [2, 4], 9900, "text", 42]\n'


SHELL = r"""
set -euo pipefail
cat <(echo substituted)
seq 100 | sort -rn | awk 'NR == 1' | xargs echo
sleep 0.05 & wait $!
mkdir -p a/b; echo x >a/b/c; cp -a a d; mv d e; tar cf e.tar e; rm -r e; tar xf e.tar; find e -type f; ls -l e >/dev/null
timeout 5 true; ulimit -n
"""


def test_bash_and_its_tools(strict: Any, worked: Worked, tools: Callable[..., str]) -> None:
    """bash, process substitution, pipes, jobs and the usual tools on files work without a word of complaint."""
    tools("bash", "bash", cheap=True)
    result = strict.exec(["bash", "-c", SHELL], timeout=20)
    assert worked(result).splitlines() == ["substituted", "100", "e/b/c", "1024"]
    assert result.stderr == ""


def test_gcc(strict: Any, worked: Worked, tools: Callable[..., str]) -> None:
    """A C program is compiled, linked and run."""
    tools("gcc", "gcc libc6-dev", cheap=True)
    strict.files.write("program.c", '#include <stdio.h>\nint main (void) { puts ("compiled"); }\n')
    assert worked(strict.exec("gcc -O1 -o program program.c && ./program")) == "compiled\n"


def test_git(strict: Any, worked: Worked, tools: Callable[..., str]) -> None:
    """git needs no locks of the kernel: it makes a file."""
    tools("git", "git", cheap=True)
    commit = "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first"
    assert worked(strict.exec(f"git init -q r && cd r && {commit} && git gc -q && git log --format=%s")) == "first\n"


SQLITE = """
import sqlite3, sys
try:
    connection = sqlite3.connect(sys.argv[1], uri=True)
    connection.execute("create table t (n)")
    with connection:
        connection.execute("insert into t values (42)")
    print(connection.execute("select n from t").fetchone()[0])
except sqlite3.OperationalError as error:
    print(error)
"""


def test_sqlite_on_a_file(strict: Any, worked: Worked) -> None:
    """Without locks of its own SQLite works on a file; with them it is refused, and says so, because no lock can be taken."""
    assert worked(strict.exec(["python3", "-c", SQLITE, "file:unlocked.db?nolock=1"])) == "42\n"
    assert worked(strict.exec(["python3", "-c", SQLITE, "file:locked.db"])) == "access permission denied\n"


NODE = """
const { execFileSync, spawn, fork } = require("child_process");
const { Worker } = require("worker_threads");
require("fs").writeFileSync("node.txt", "file");
console.log(require("fs").readFileSync("node.txt", "utf8"), execFileSync("echo", ["sync"]).toString().trim());
const worker = new Worker('require("worker_threads").parentPort.postMessage(6 * 7)', { eval: true });
worker.on("message", (n) => {
  console.log(n);
  spawn("echo", ["async"], { stdio: "inherit" }).on("exit", () => {
    require("fs").writeFileSync("child.js", 'process.on("message", (m) => { process.send(m + 1); process.disconnect(); })');
    const child = fork("./child.js");
    child.on("message", (m) => console.log("message", m));
    child.send(1);
  });
});
"""


@pytest.mark.full
@pytest.mark.parametrize("profile", ["default", "strict"])
def test_node(make: Callable[..., Any], worked: Worked, tools: Callable[..., str], profile: str) -> None:
    """node reads and writes files, has children, worker threads and a channel to a forked node."""
    tools("node", "nodejs")
    sandbox = make(profile)
    sandbox.files.write("main.js", NODE)
    assert worked(sandbox.exec(["node", "main.js"])) == "file sync\n42\nasync\nmessage 2\n"
