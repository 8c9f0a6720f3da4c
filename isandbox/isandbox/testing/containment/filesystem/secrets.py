"""Files of the host that were not mounted."""

from __future__ import annotations

from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.judge import judge
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

_READ = """
controls["a file of its own"] = "ok" if content("/proc/self/comm") else "nothing read"
for path in paths:
    out[path] = opened(path)
    out[path + " by /proc/self/root"] = opened("/proc/self/root" + path)
    if out[path] == "ok":
        sys.stdout.write(content(path))
"""


@probe("A01", "Secrets of the host cannot be read", claim="files")
async def host_secrets(arena: Arena) -> Verdict:
    """Neither a planted file by its absolute path nor the machine's own password and key files open."""
    path, _ = arena.plant(".ssh/id_ed25519")
    out, controls = await arena.attack(_READ, paths=[str(path), "/etc/shadow", "/etc/gshadow", "/root/.ssh", "/etc/ssh"])
    return judge(out, controls)
