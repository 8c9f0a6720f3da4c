"""What is installed is what was tested: sdist, wheel, a clean environment, another directory."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.package, pytest.mark.timeout(600)]
ROOT = Path(__file__).resolve().parent.parent


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None, code: int = 0) -> str:
    result = subprocess.run(
        [str(word) for word in command],
        check=False,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=400,
        env={**os.environ, **(env or {})},
    )
    assert result.returncode == code, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def build_wheel(sdist: Path, out: Path, **env: str) -> Path:
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", out, sdist, cwd=out, env=env)
    (wheel,) = out.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sdist")
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", out, ROOT, cwd=out)
    (archive,) = out.glob("*.tar.gz")
    return archive


def clean_python(where: Path) -> Path:
    venv.create(where, with_pip=True)
    return where / "bin" / "python"


def test_sdist_holds_sources_and_no_binary(sdist: Path) -> None:
    """The sdist has the helper's sources, the tests and the licence, and nothing compiled."""
    with tarfile.open(sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    assert {"backends/helper/main.c", "hatch_build.py", "LICENSE", "tests/test_package.py", "Makefile"} <= set(names)
    assert not [name for name in names if "_bin/" in name or name.endswith((".so", ".pyc"))]


def test_wheel_runs_from_another_directory(sdist: Path, tmp_path: Path) -> None:
    """sdist to wheel to a clean environment: create_sandbox works from another directory, with the helper it brought."""
    wheel = build_wheel(sdist, tmp_path)
    assert wheel.name.endswith(f"-py3-none-linux_{platform.machine()}.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    packages = {name.split("/")[0] for name in names if not name.split("/")[0].endswith(".dist-info")}
    assert packages == {"isandbox", "isandbox_backends", "isandbox_keyvault"}
    assert {f"{package}/py.typed" for package in packages} <= set(names)

    python = clean_python(tmp_path / "clean")
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel, cwd=tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    script = (
        "from isandbox.sync import create_sandbox\nwith create_sandbox() as s: print(s.exec('echo $((6*7))').stdout, end='')"
    )
    assert run(python, "-I", "-c", script, cwd=elsewhere, env={"SANDBOX_TYPE": ""}) == "42\n"
    assert run(tmp_path / "clean/bin/isandbox", "run", "--", "echo", "hi", cwd=elsewhere) == "hi\n"


def test_without_a_compiler(sdist: Path, tmp_path: Path) -> None:
    """Without a compiler the package installs; create_sandbox and doctor say what to install, in the same words, and nothing
    takes the native backend's place."""
    wheel = build_wheel(sdist, tmp_path, CC="no-such-compiler")
    assert wheel.name.endswith("-py3-none-any.whl")
    python = clean_python(tmp_path / "clean")
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel, cwd=tmp_path)
    script = """
from isandbox import BackendUnavailableError
from isandbox.sync import create_sandbox
for name in ("seccomp", None):
    try:
        create_sandbox(name)
    except BackendUnavailableError as error:
        print(error)
with create_sandbox("local") as sandbox:
    print(sandbox.exec("echo weaker").stdout.strip(), "absent" in sandbox.info.layers["helper"])
"""
    native, default, weaker = run(python, "-I", "-c", script, cwd=tmp_path, env={"SANDBOX_TYPE": ""}).splitlines()
    assert native == default
    assert "apt-get install gcc" in native
    assert weaker == "weaker True"
    said = run(tmp_path / "clean/bin/isandbox", "doctor", cwd=tmp_path, env={"SANDBOX_TYPE": ""}, code=1)
    assert f"create_sandbox() refuses: {native}" in said
    assert "seccomp: not available" in said
