"""Names of any bytes come back as they went, and what no name can hold is refused."""

from __future__ import annotations

import os
import unicodedata

from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.checks import Checks
from isandbox.testing.containment.interface.verbs import READING, WRITING, Place, said
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

ODD = {
    "a newline": "new\nline",
    "newlines only": "\n\n",
    "a carriage return": "car\rriage",
    "an escape": "esc\x1b[2J",
    "a bell": "bell\a",
    "delete": "del\x7f",
    "a C1 control": "c1\x9b31m",
    "a line separator": "line\u2028separator",
    "a change of direction": "rtl\u202egpj.exe",
    "white space": " ",
    "a tab": "\ttab\t",
    "an emoji": "\U0001f469\u200d\U0001f52c",
    "composed": unicodedata.normalize("NFC", "e\u0301"),
    "decomposed": "e\u0301",
    "no UTF-8": os.fsdecode(b"\xff\xfe\x80"),
    "an overlong slash": os.fsdecode(b"\xc0\xaf"),
    "255 bytes": "\xe9" * 127 + "x",
}

_INSIDE = """
names = {name.hex() for name in os.listdir(b"odd")}
for name in expected:
    out[name] = "ok" if name in names else "missing"
out["more"] = "ok" if len(names) == len(expected) else str(len(names))
os.mkdir("made")
for name in expected:
    with open(b"made/" + bytes.fromhex(name), "wb") as file:
        file.write(bytes.fromhex(name))
controls["made"] = "ok" if len(os.listdir("made")) == len(expected) else "not all"
"""


@probe("F02", "Names of any bytes come back as they went", claim="interface")
async def any_bytes(arena: Arena) -> Verdict:
    """Control characters, bytes that are no text and twins by normal form survive every verb, both ways, one entry each; a NUL
    and half of a surrogate pair are `ConfigurationError` for every verb.
    """
    sandbox, checks = await arena.sandbox(), Checks()
    for name in ODD.values():
        await sandbox.write(f"odd/{name}", os.fsencode(name))
    answers, controls = await arena.attack(_INSIDE, expected=[os.fsencode(name).hex() for name in ODD.values()])
    checks.control("made inside", set(controls.values()) == {"ok"}, controls)
    checks.hold("seen inside as they were written", set(answers.values()) == {"ok"}, answers)
    for directory in ("odd", "made"):
        listed = {entry.name for entry in await sandbox.list_dir(directory)}
        checks.hold(f"{directory}: listed one by one", listed == set(ODD.values()), listed ^ set(ODD.values()))
        for what, name in ODD.items():
            checks.hold(f"{what} is read", await sandbox.read(f"{directory}/{name}") == os.fsencode(name))
            checks.hold(f"{what} is told", (await sandbox.stat(f"{directory}/{name}")).name == name)
            await sandbox.rename(f"{directory}/{name}", f"{directory}/{name[:9]}~")
            await sandbox.rename(f"{directory}/{name[:9]}~", f"{directory}/{name}")
    landing = arena.directory() / "got"
    await sandbox.files.download("made", landing)
    checks.hold("downloaded as they are", set(os.listdir(landing)) == set(ODD.values()))
    for name in ODD.values():
        await sandbox.remove(f"odd/{name}")
    checks.hold("all are gone", await sandbox.list_dir("odd") == [])
    for what, path in (("a NUL", "a\0b"), ("half of a pair", "a\ud800b"), ("nothing", "")):
        for verb, run in (*READING.items(), *WRITING.items()):
            if verb in {"make_dir", "make_link"} and not path:
                continue  # they add to it
            if verb == "rename to":
                await sandbox.write("own", b"own")
            answer = await said(arena, run(Place(arena, sandbox, path)))
            checks.hold(f"{what}: {verb}", answer == "configuration", answer)
    return checks.verdict("CONTAINED", "names are bytes")
