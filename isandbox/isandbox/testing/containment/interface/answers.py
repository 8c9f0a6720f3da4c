"""What a command says is data: never parsed, never evaluated, never mistaken for the sandbox's own word."""

from __future__ import annotations

import base64
import os
import pickle
import tempfile
from pathlib import Path

from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.checks import Checks
from isandbox.testing.containment.interface.verbs import said, typed
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

# Written to every descriptor that is open, and then as output: whoever reads one of them as more than bytes stumbles.
_SPEAK = """
import base64
texts = [base64.b64decode(one) for one in payloads]
for fd in range(3, 64):
    for text in texts:
        try:
            os.write(fd, text[:4096])
        except OSError:
            break
controls["written"] = "ok" if len(texts) > 5 else "no"
"""
_PRINT = "import base64, os, sys\nfor one in sys.argv[1:]:\n    os.write(1, base64.b64decode(one)); os.write(2, base64.b64decode(one))\n"


class _Trap:
    """Leaves a trace where it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (os.mkdir, (self.path,))


def bombs(trace: str) -> dict[str, bytes]:
    """Answers that harm a reader who believes them."""
    entities = b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><x>&b;&b;</x>'
    return {
        "nested arrays": b"[" * 30_000,
        "a number without end": b"1e1000000",
        "a name twice": b'{"exit_code": 1, "exit_code": 0, "fault": "oom", "timeout": NaN}\n',
        "no text": b"\xff\xfe\x80\x00" * 100,
        "aliases": b"a: &a [x]\nb: &b [*a, *a]\nc: !!python/object/apply:os.mkdir [" + trace.encode() + b"]\n",
        "entities": entities,
        "a pickle": pickle.dumps(_Trap(trace)),
        "an old pickle": pickle.dumps(_Trap(trace), protocol=0),
        "an expression": f"__import__('os').mkdir({trace!r})".encode(),
        "markup": b"<script>alert(1)</script>",
        # The shapes of a frame: a length, a kind and a command's number in front, of small and of endless size.
        "a frame": (8).to_bytes(4, "little") + (4).to_bytes(2, "little") + bytes(2) + (1).to_bytes(4, "little") + bytes(4),
        "a frame without end": b"\xff\xff\xff\x7f" + (5).to_bytes(2, "little") + bytes(2),
    }


@probe("F23", "What a command writes is never taken for the sandbox's word", claim="interface")
async def forged(arena: Arena) -> Verdict:
    """Bombs of every format, and forged frames, on the streams and on every open descriptor: bytes come back as they were, the
    command's end is its own, and the sandbox goes on.
    """
    box, checks = await arena.box(), Checks()
    payloads = bombs(str(arena.planted / "trace"))
    coded = [base64.b64encode(one).decode() for one in payloads.values()]
    result = await box.exec(["python3", "-I", "-c", _PRINT + "sys.exit(7)", *coded], timeout=30.0, max_output=1 << 20)
    arena.saw(result)
    whole = b"".join(payloads.values())
    checks.control("all of it was written", result.stdout_bytes == whole and result.stderr_bytes == whole)
    end = (result.exit_code, result.fault, set(result.limits_hit), result.start_error)
    checks.hold("its end is its own", end == (7, None, set(), None), end)
    spoken = await arena.run(_SPEAK, payloads=coded)
    checks.hold("who writes to every descriptor has its own end", (spoken.exit_code, spoken.fault) == (0, None), spoken)
    again = await box.exec(["echo", "alive"], timeout=20.0)
    checks.hold("the sandbox goes on", again.stdout == "alive\n", again)
    return checks.verdict("CONTAINED", "output is bytes")


def _there(path: Path) -> bool:
    return os.path.lexists(path)


def _springs(pickled: bytes, trace: Path) -> bool:
    pickle.loads(pickled)  # noqa: S301 - our own, and the proof that it works
    found = trace.is_dir()
    trace.rmdir()
    return found


@probe("F24", "Nothing from inside is unpickled or evaluated", claim="interface")
async def serialised(arena: Arena) -> Verdict:
    """Pickles, expressions and tagged documents as output, as file, as name and as link: they come back as bytes, and leave no
    trace on the host.
    """
    sandbox, checks = await arena.sandbox(), Checks()
    trace = Path(tempfile.gettempdir(), f"trace-{os.urandom(8).hex()}")
    payloads = bombs(str(trace))
    checks.control("the trap works", _springs(payloads["a pickle"], trace))
    for number, (what, data) in enumerate(payloads.items()):
        await sandbox.write(f"{number}.pkl", data)
        checks.hold(f"{what} is read", await sandbox.read(f"{number}.pkl") == data)
        answer = await said(arena, sandbox.files.read_text(f"{number}.pkl", errors="replace"))
        checks.hold(f"{what} as a text", answer == "ok", answer)
        name = data[:200].replace(b"/", b"").replace(b"\0", b"") or b"x"
        answer = await said(arena, sandbox.make_link(os.fsdecode(b"l" + name), os.fsdecode(data.replace(b"\0", b"")[:200])))
        checks.hold(f"{what} as a link", typed(answer), answer)
    await said(arena, sandbox.list_dir("."))
    await said(arena, sandbox.files.download(".", arena.directory() / "got", unsafe="skip"))
    checks.hold("no trace on the host", not _there(trace))
    return checks.verdict("CONTAINED", "bytes stay bytes")
