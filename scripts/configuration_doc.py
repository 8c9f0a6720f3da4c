"""Write docs/configuration.md from the table of settings; with --check only say whether it is up to date."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from isandbox._settings.files import LARGEST
from isandbox._settings.table import SETTINGS, Setting

TARGET = Path(__file__).resolve().parent.parent / "docs" / "configuration.md"
PROJECT = {"refused": "no", "lower": "may lower it", "raise": "may raise it"}
HEAD = """# Configuration

Defaults for `create_sandbox` and the command line, and policies in files. Written by `python scripts/configuration_doc.py`; why it
is so: [0018](decisions/0018-settings-and-policy-files.md).

## Which word counts

1. An argument of the call, or an option of the command line. A whole policy (`policy=`, `--policy`) is an argument: the quotas
   are those in it, and no setting of a quota counts.
2. A variable of the environment. An empty one counts as unset.
3. The project file: `isandbox.toml` in the current directory, and in no directory above it.
4. The user's file: `$XDG_CONFIG_HOME/isandbox/isandbox.toml`, else `~/.config/isandbox/isandbox.toml`.
5. The default.

Quotas count one by one: `Quotas(cpus=1)` leaves a setting of `memory` in force. `Quotas(pids=None)` and `Quotas(open_files=None)`
lift a setting; what has no default can be lifted by `policy=` only.

A key that is not known is an error that names the nearest one; so is a variable that begins with `ISANDBOX_`, a value that is
not valid, and a file that cannot be trusted. Nothing is skipped.
"""
TABLE = """## Settings

`project file`: what `isandbox.toml` in the current directory may do. Sizes have binary units (KiB, MiB, GiB, TiB). `"none"` is no
limit.
"""
FILES = """## The two files

```toml
# ~/.config/isandbox/isandbox.toml
type = "seccomp"
min_isolation = "os"

[quotas]
memory = "2GiB"
pids = 512
```

**The user's file** must belong to you or to root, and only its owner may write to it or to the directory that it is in. It may be a link. `ISANDBOX_CONFIG`
names a file that is read instead of both; it must belong to you or to root, too, and nobody else may be able to put another one in its
place: not by a link of theirs, nor in its directory or the one that a link leads to, unless that is sticky. Empty, no file is read.

**Neither is for code inside to write.** Where there is isolation, a sandbox whose workspace or mounts would let a command write to such a
file, or to a link on the way to it, is refused: what it says decides about the next sandbox. Make that read-only, or deny the file.

**The project file** may have been written by a stranger: whoever clones a repository and starts something in it has not read it
yet. So it may narrow and never widen. It may lower quotas and `start_timeout`, and raise `min_isolation`. A value that asks for more than
holds without it changes nothing; any other key is an error. It is a regular file, never a link. Where it asks for
what the backend cannot enforce, the error names it. To give a file of a project your own word, name it:
`ISANDBOX_CONFIG=isandbox.toml`. Code inside must not be able to write it then.

Both: TOML, at most {largest} KiB, nested no deeper than 16, read by descriptor; a FIFO or a device is not opened. `~` and variables
in them are not expanded, and nothing in them is ever run.

**When they are read.** Variables at each call. Files when a sandbox is first made, and again when `ISANDBOX_CONFIG`,
`XDG_CONFIG_HOME` or `HOME` has changed: a process keeps the project file of the directory that it began in, and does not see a file
that is written later. After an error they are read again at the next call.

`isandbox doctor` says who chose the backend.
"""
STATE = """## Directories

Sandboxes that outlive a process are registered below `ISANDBOX_STATE_DIR`; without it in `/var/lib/isandbox` for root, else in
`$XDG_STATE_HOME/isandbox`, else in `~/.local/state/isandbox`. No file sets it.
"""
POLICY = """## Policy files

`create_sandbox(policy="strict.toml")`, `isandbox run --policy strict.toml -- CMD`, `Policy.load(path)`, `Policy.loads(text)`;
`Policy.to_toml()` writes one. The keys are the fields of `Policy`, `Workspace`, `Mount` and `Quotas`.

```toml
network = []                # no hosts; without the key the backend's default
waive = ["landlock"]        # layers and quotas that may be missing

[workspace]
path = "."                  # relative paths begin at this file's directory
mode = "ro"                 # rw (the default), ro, overlay, copy
deny = [".env"]

[[mounts]]
source = "../data"
target = "/data"
mode = "ro"                 # the default; or rw

[env]
LANG = "C.UTF-8"

[quotas]
memory = "512MiB"
pids = "none"               # no limit
```

The file is everything: what it does not say has the defaults of `Policy`, and no setting of a quota is added. A key that is not known or has the
wrong type is `ConfigurationError` with the file, the key and what is allowed. A path that begins with `~` is refused, not expanded.
A file that the policy itself makes writable for code inside is refused: that code could decide what it says the next time. Deny it
(`deny = ["strict.toml"]`) or keep it elsewhere. Values of `env` stand in no error; a file that holds secrets should be yours alone all the same (`chmod 600`). A policy file is read
because you name it, and so it may widen: do not name one that you have not read.

`Policy.explain("read", "/data/x")`, `("write", path)` and `("connect", "host:443")` say whether the policy lets a command do so, and by
which line: `Explanation(allowed, by, reason)`. `allowed` is `None` where the policy says nothing and the backend decides.
Nothing is looked up, so links are not followed.
"""


def document() -> str:
    rows = "\n".join(_rows())
    return "\n".join([HEAD, f"{TABLE}\n{rows}\n", FILES.format(largest=LARGEST >> 10), STATE, POLICY])


def _rows() -> Iterator[str]:
    yield "| key | variable | value | default | project file | what it is |"
    yield "|---" * 6 + "|"
    for setting in SETTINGS:
        key = f"`{setting.key}`" if setting.key else "in no file"
        cells = (key, f"`{setting.variable}`", setting.allowed, setting.default, _project(setting), setting.about)
        yield f"| {' | '.join(cells)} |"


def _project(setting: Setting) -> str:
    return PROJECT[setting.project] if setting.key else "no"


def main() -> int:
    wanted = document()
    if "--check" in sys.argv:
        if TARGET.exists() and TARGET.read_text() == wanted:
            return 0
        print("docs/configuration.md is out of date; run python scripts/configuration_doc.py")
        return 1
    TARGET.write_text(wanted)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
