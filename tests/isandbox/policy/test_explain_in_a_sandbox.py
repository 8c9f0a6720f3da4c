"""What `Policy.explain` says, and what a command of a `seccomp` sandbox can do."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from isandbox import ConfigurationError, Mount, Policy, Workspace
from isandbox.sync import create_sandbox

pytestmark = pytest.mark.native

FILES = ("f", "a/f", "a/x/f", "a/x/y/f", "b/f")
PLACES = ("", "a", "a/x", "a/x/y", "b", "f", "a/f")
TARGETS = ("/m", "/n", "/m/a", "/m/a/x", "/workspace/a", "/workspace/a/x", "/workspace/b", "/workspace/f")
# Reads each path, then writes it: whether what it holds came out, and whether it took a byte.
ASK = """
import json, sys
def does(work):
    try:
        return work()
    except OSError:
        return None
found = {}
for path in json.loads(sys.argv[1]):
    content = does(lambda: open(path).read())
    found[path] = [content, does(lambda: open(path, "a").write(" "))]
print(json.dumps(found))
"""


@pytest.fixture
def trees(sandbox_tmp: Path, request: Any) -> Iterator[Path]:
    """Two trees of files that everybody may write; each file holds its own name."""
    top = sandbox_tmp / f"explain-{request.node.name[-1]}"
    for tree in ("one", "two"):
        for name in FILES:
            path = top / tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{tree}/{name}")
            path.chmod(0o666)
    for directory in (top, *(path for path in top.rglob("*") if path.is_dir())):
        directory.chmod(0o777)
    yield top
    shutil.rmtree(top)


def some_policy(rng: random.Random, top: Path) -> Policy:
    deny = tuple(rng.sample([place for place in PLACES if place], rng.choice([0, 0, 1, 2])))
    mounts = tuple(
        Mount(f"{top}/{rng.choice(['one', 'two'])}/{rng.choice(PLACES)}".rstrip("/"), target, rng.choice(["ro", "rw"]))
        for target in rng.sample(TARGETS, rng.choice([0, 1, 2, 3]))
    )
    return Policy(Workspace(f"{top}/one", rng.choice(["ro", "rw"]), deny), mounts)


def on_host(policy: Policy, path: str) -> Path:
    """The file of the host that the innermost place has at this path."""
    assert policy.workspace is not None
    places = [("/workspace", policy.workspace.path), *((mount.target, mount.source) for mount in policy.mounts)]
    target, source = max((one for one in places if f"{path}/".startswith(f"{one[0]}/")), key=lambda one: len(one[0]))
    return Path(source + path[len(target) :])


@pytest.mark.parametrize("seed", range(4))
def test_what_is_explained_is_so(seed: int, trees: Path) -> None:
    """For policies and files of any kind: what is allowed works, what is not does not."""
    rng = random.Random(seed)  # noqa: S311 - the same ones each time
    tops = ("/workspace", "/m", "/n")
    compared = {True: 0, False: 0}
    for _ in range(12):
        policy = some_policy(rng, trees)
        paths = [
            f"{top}/{name}" for top in tops for name in FILES if policy.explain("read", f"{top}/{name}").allowed is not None
        ]
        paths += [mount.target for mount in policy.mounts]
        try:
            with create_sandbox("seccomp", policy=policy) as sandbox:
                done = sandbox.exec(["python3", "-c", ASK, json.dumps(paths)], timeout=60).check()
        except ConfigurationError:  # a mount on what the policy denies, or below a file
            continue
        for path, (content, written) in json.loads(done.stdout).items():
            real = on_host(policy, path)
            if not real.is_file():
                continue
            name = f"{real.relative_to(trees)}"
            got = {"read": content is not None and content.startswith(name), "write": written is not None}
            for operation in ("read", "write"):
                said = policy.explain(operation, path)  # type: ignore[arg-type] # both are operations
                assert said.allowed is got[operation], (operation, path, said, policy)
                compared[said.allowed] += 1
        for path in trees.rglob("f"):
            path.write_text(str(path.relative_to(trees)))
    assert min(compared.values()) > 10
