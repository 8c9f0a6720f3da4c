"""Run by the interpreter that has sandlock, with a request in JSON: one command in one sandbox of it."""

import json
import sys

import sandlock

request = json.loads(sys.argv[1])
limits = {name: value for name, value in request["limits"].items() if value is not None}
box = sandlock.Sandbox(
    fs_readable=[
        "/usr",
        "/lib",
        "/lib64",
        "/bin",
        "/etc/alternatives",
        "/etc/ld.so.cache",
        "/etc/ssl",
        "/proc",
        "/dev/random",
        "/dev/urandom",
    ],
    fs_writable=["/tmp", *(f"/dev/{name}" for name in ("full", "null", "ptmx", "pts", "tty", "zero"))],
    chroot="/",
    fs_mount={"/tmp": request["directory"]},
    cwd="/tmp",
    clean_env=True,
    env={"HOME": "/tmp", "PATH": "/usr/local/bin:/usr/bin:/bin"},
    no_coredump=True,
    **limits,
)
result = box.run(request["argv"], timeout=request["timeout"])
sys.stdout.buffer.write(result.stdout)
sys.stderr.buffer.write(result.stderr + (result.error or "").encode())
killed = 128 + (result.signal if result.signal > 0 else 9)
sys.exit(result.exit_code if result.exit_code >= 0 else killed)
