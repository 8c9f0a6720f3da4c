"""What does a sandbox that stays cost: to make and end it, to reach it from elsewhere, to find it among others?"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile

from benchmarks.measure import Answer, interleave, timed
from benchmarks.start import BWRAP, TRUE
from isandbox.sync import connect, create_sandbox, list_sandboxes

ROUNDS = 100
OTHERS = 20
BAR = 1.0


def run(rounds: int | None = None) -> Answer:
    """In a state directory of its own, on the file system of the temporary directory."""
    with contextlib.ExitStack() as stack:
        state = stack.enter_context(tempfile.TemporaryDirectory(prefix="stay-"))
        before = os.environ.get("ISANDBOX_STATE_DIR")
        os.environ["ISANDBOX_STATE_DIR"] = f"{state}/state"
        stack.callback(_restore, before)
        others = [create_sandbox("seccomp", detached=True, lifetime=3600) for _ in range(OTHERS)]
        stack.callback(lambda: [other.close() for other in others])
        first = others[0]

        def made() -> None:
            create_sandbox("seccomp", detached=True, lifetime=3600).close()

        def reached() -> None:
            with connect(first.info.id) as sandbox:
                sandbox.exec(TRUE).check()

        def owned() -> None:
            with create_sandbox("seccomp"):
                pass

        cases = {
            "create, close": timed(made),
            "create, close (owned)": timed(owned),
            "connect, exec, let go": timed(reached),
            "exec on a connection": timed(lambda: first.exec(TRUE).check()),
            f"list of {OTHERS}": timed(list_sandboxes),
        }
        if shutil.which("bwrap"):
            cases["bwrap"] = timed(lambda: subprocess.run(BWRAP, check=True))
        answer = Answer("stay", "ms", interleave(cases, rounds or ROUNDS))
        if "bwrap" in cases:
            answer.compare("connect, exec, let go", "bwrap", BAR)
        else:
            answer.notes.append("bwrap is not installed: nothing to compare with")
        return answer


def _restore(before: str | None) -> None:
    if before is None:
        del os.environ["ISANDBOX_STATE_DIR"]
    else:
        os.environ["ISANDBOX_STATE_DIR"] = before
