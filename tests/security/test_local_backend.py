"""The local backend isolates nothing, and still ends what it started."""

from __future__ import annotations

import os

import pytest

from isandbox.sync import create_sandbox

pytestmark = pytest.mark.native

HEADLESS = """
import ctypes, os, threading, time
threading.Thread(target=lambda: (time.sleep(60), os._exit(0))).start()
ctypes.CDLL(None).syscall({number}, 0)
"""


def test_a_process_without_its_first_thread_is_ended() -> None:
    """A process whose first thread has ended looks like a zombie; a time-out and close end it all the same."""
    program = HEADLESS.format(number=60 if os.uname().machine == "x86_64" else 93)
    with create_sandbox("local") as sandbox:
        assert sandbox.exec(["python3", "-c", program], timeout=1).fault == "timeout"
        assert sandbox.exec("echo usable").stdout == "usable\n"
        sandbox.start(["python3", "-c", program])
