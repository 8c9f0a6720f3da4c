"""The size of one file."""

from __future__ import annotations

from isandbox.policy import Quotas
from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.judge import judge
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe
from isandbox.testing.containment.resources.quota import MIB, holder

# In children: the signal that comes with it would end the program. A bound of its own for where nothing holds.
_GROW = """
import resource
def grow(how):
    def attack():
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, 4 << 20))
        except (ValueError, OSError):
            pass
        with open("grown", "wb", buffering=0) as file:
            return how(file)
    said = in_child(attack)
    attempt(os.unlink, "grown")
    return "EFBIG" if said == "signal %d" % signal.SIGXFSZ else said

def written(file):
    return attempt(lambda: [file.write(bytes(1 << 18)) for _ in range(8)])

controls["half of it"] = grow(lambda file: attempt(file.write, bytes(1 << 19)))
out["written"] = grow(written)
out["stretched"] = grow(lambda file: attempt(file.truncate, 2 << 20))
out["allocated"] = grow(lambda file: attempt(os.posix_fallocate, file.fileno(), 0, 2 << 20))
"""


@probe("C05-size", "A file does not grow past its quota", claim="quotas.file_size")
async def file_size(arena: Arena) -> Verdict:
    """Of 1 MiB there is no second, written, stretched or allocated, also after a try to raise the limit."""
    box = await arena.create(quotas=Quotas(file_size=MIB))
    out, controls = await arena.attack(_GROW, box=box)
    return judge(out, controls, refused={"EFBIG"}, by={"EFBIG": holder(arena, box, "file_size")})
