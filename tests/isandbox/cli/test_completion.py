"""What shells complete, asked through the shells themselves."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from isandbox.cli import _complete, main
from isandbox.cli._complete import complete_ids, words_of_option

BASH = """
eval "$(isandbox completion bash)"
COMP_WORDS=({words}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_isandbox_completion isandbox 2>/dev/null
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
# compdef, compadd and _describe are zsh's completion system, which only a terminal starts; here they say what they were given.
ZSH = """
compdef() {{ :; }}
compadd() {{ print -rl -- "${{completions[@]}}"; }}
_describe() {{ print -rl -- "${{completions_with_descriptions[@]%%:*}}"; }}
eval "$(isandbox completion zsh)"
words=({words}) CURRENT=$#words
_isandbox_completion
"""
FISH = """
isandbox completion fish | source
complete --do-complete {line}
"""


def shell(name: str, script: str, program: str, home: Path) -> list[str]:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: apt-get install {name}")
    env = {"PATH": f"{os.path.dirname(program)}:{os.environ['PATH']}", "HOME": str(home), "LANG": "C.UTF-8"}
    flags = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[name]
    done = subprocess.run([found, *flags, "-c", script], env=env, capture_output=True, timeout=60, check=True, cwd=home)
    assert done.stderr == b""
    return [line.split("\t")[0] for line in done.stdout.decode().splitlines() if line]


@pytest.fixture(params=["bash", "zsh", "fish"])
def complete(request: Any, program: str, tmp_path: Path) -> Any:
    """``complete("run", "--t")``: what the shell offers after these words."""

    def ask(*words: str) -> list[str]:
        quoted = " ".join(f"'{word}'" for word in ("isandbox", *words))
        line = "'" + " ".join(("isandbox", *words)) + "'"
        script = {"bash": BASH, "zsh": ZSH, "fish": FISH}[request.param].format(words=quoted, line=line)
        return shell(request.param, script, program, tmp_path)

    return ask


def test_commands(complete: Any) -> None:
    """The names of all commands are offered, and only those that begin so."""
    offered = complete("")
    assert {"run", "doctor", "audit", "completion", "schema"} <= set(offered)
    assert sorted(offered) == sorted(main.list_commands(None))
    assert complete("do") == ["doctor"]


def test_options_and_backends(complete: Any) -> None:
    """Options of the command and the names of the backends are offered."""
    assert complete("run", "--ty") == ["--type"]
    assert {"local", "node", "seccomp"} <= set(complete("run", "--type", ""))
    assert complete("audit", "--type", "sec") == ["seccomp"]
    assert set(complete("completion", "")) == {"bash", "zsh", "fish"}


def test_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids that begin so are offered with a word on each; what is no id is not, for a shell would act on it."""
    known = [("isb-1a", "running"), ("isb-1b", ""), ("isb-2", "running"), ("isb-1$(reboot)", "")]
    monkeypatch.setattr(_complete, "known_ids", lambda: known)
    assert [(item.value, item.help) for item in complete_ids(None, None, "isb-1")] == [("isb-1a", "running"), ("isb-1b", None)]


def test_words_of_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """Profiles are those of the backend in question; no such backend, or no such option, is no completion and no error."""
    assert words_of_option("seccomp", "profile") == ("default", "debug", "strict")
    assert words_of_option("local", "profile") == ()
    assert words_of_option("no-such-type", "profile") == ()


def test_a_script_of_no_shell(isandbox: Any) -> None:
    """A shell that is not known is wrong usage, and those that are known are named."""
    done = isandbox("completion", "tcsh")
    assert done.returncode == 2
    for name in (b"bash", b"zsh", b"fish"):
        assert name in done.stderr
