"""Large programs under the default profile: a JVM, cargo, Chromium, numpy and pandas, a project's own tests."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from isandbox import Mount

pytestmark = [pytest.mark.native, pytest.mark.full, pytest.mark.timeout(600)]

Worked = Callable[[Any], str]

JAVA = """
import java.util.concurrent.*;
public class Main {
  public static void main(String[] a) throws Exception {
    var pool = Executors.newFixedThreadPool(4);
    System.out.println(pool.submit(() -> 6 * 7).get());
    pool.shutdown();
    System.out.print(new String(new ProcessBuilder("echo", "child").start().getInputStream().readAllBytes()));
    System.out.println(javax.crypto.Cipher.getInstance("AES/GCM/NoPadding").getAlgorithm());
    System.out.println(java.security.KeyStore.getInstance("PKCS12").getType());
  }
}
"""


def test_a_jvm(box: Any, worked: Worked, tools: Callable[..., str]) -> None:
    """javac compiles and java runs threads, a child, and what the JVM's security settings configure."""
    tools("javac", "default-jdk-headless")
    box.files.write("Main.java", JAVA)
    assert worked(box.exec("javac Main.java && java -cp . Main")).split() == ["42", "child", "AES/GCM/NoPadding", "PKCS12"]


def rust_toolchain() -> list[Mount] | None:
    """Where cargo is: in the view already, or below a home directory, to be mounted; ``None`` for nowhere."""
    if shutil.which("cargo", path="/usr/local/bin:/usr/bin:/bin"):
        return []
    toolchains = sorted(Path.home().glob(".rustup/toolchains/stable-*/bin/cargo"))
    return [Mount(str(toolchains[0].parents[1]), "/opt/rust")] if toolchains else None


def test_cargo_without_a_network(make: Callable[..., Any], worked: Worked) -> None:
    """cargo builds and runs a crate and one that it depends on, offline; a toolchain of a home directory is mounted read-only."""
    mounts = rust_toolchain()
    if mounts is None:
        pytest.skip("no cargo: apt-get install cargo, or rustup")
    sandbox = make(mounts=mounts, env={"PATH": "/opt/rust/bin:/usr/bin:/bin"})
    worked(sandbox.exec("cargo new -q --vcs none main && cargo new -q --vcs none --lib helper"))
    sandbox.files.write("helper/src/lib.rs", "pub fn answer() -> u8 { 42 }\n")
    sandbox.files.write("main/src/main.rs", 'fn main() { println!("{}", helper::answer()); }\n')
    worked(sandbox.exec("echo 'helper = { path = \"../helper\" }' >>main/Cargo.toml"))
    assert worked(sandbox.exec("cargo run -q --offline", cwd="main", timeout=120)) == "42\n"


PAGE = '<p id="x">before</p><script>document.getElementById("x").textContent = "after " + 6 * 7</script>'


@pytest.mark.parametrize("how", ["the program", "Debian's script"])
def test_chromium(make: Callable[..., Any], worked: Worked, tools: Callable[..., str], how: str) -> None:
    """Headless Chromium, its own sandbox off, runs a page's script; Debian's start script needs its settings to be mounted."""
    tools("chromium", "chromium")
    if how == "the program":
        program, mounts = "/usr/lib/chromium/chromium", []
        if not Path(program).exists():
            pytest.skip("another distribution's Chromium: apt-get install chromium on Debian")
    else:
        program, mounts = "chromium", [Mount(path, path) for path in ("/etc/chromium.d", "/etc/fonts") if Path(path).is_dir()]
    sandbox = make(mounts=mounts)
    sandbox.files.write("page.html", PAGE)
    options = "--headless --no-sandbox --disable-gpu --dump-dom file:///workspace/page.html"
    assert ">after 42</p>" in worked(sandbox.exec(f"{program} {options}", timeout=120))


def pip(*arguments: str) -> None:
    """pip of this interpreter, on the host; a skip where it reaches no index."""
    result = subprocess.run(
        [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    unreachable = ("No matching distribution found", "Connection", "Temporary failure in name resolution")
    if result.returncode and any(word in result.stderr for word in unreachable):
        pytest.skip("pip reaches no package index: give it one by PIP_INDEX_URL")
    assert result.returncode == 0, result.stderr


@pytest.fixture
def packages(sandbox_tmp: Path) -> Iterator[Path]:
    if subprocess.check_output(["/usr/bin/python3", "-c", "import sys; print(*sys.version_info[:2])"], text=True).split() != [
        str(part) for part in sys.version_info[:2]
    ]:
        pytest.skip("/usr/bin/python3 is not the version of this interpreter: its packages would not fit")
    path = sandbox_tmp / "packages"
    path.mkdir()
    yield path
    shutil.rmtree(path)


NUMBERS = """
import numpy, pandas
square = numpy.random.default_rng(1).random((300, 300))
print(numpy.allclose(square @ numpy.linalg.inv(square), numpy.eye(300)))
table = pandas.DataFrame({"k": list("abab"), "v": range(4)})
table.to_csv("t.csv", index=False)
print(pandas.read_csv("t.csv").groupby("k").v.sum().to_dict())
"""


def test_numpy_and_pandas(make: Callable[..., Any], worked: Worked, packages: Path) -> None:
    """Wheels with native code, mounted read-only, compute with all their threads."""
    pip("install", "--target", str(packages), "--only-binary", ":all:", "numpy", "pandas")
    sandbox = make(mounts=[Mount(str(packages), "/packages")], env={"PYTHONPATH": "/packages"})
    assert worked(sandbox.exec(["python3", "-c", NUMBERS], timeout=120)) == "True\n{'a': 2, 'b': 4}\n"


def test_a_project_runs_its_tests(make: Callable[..., Any], worked: Worked, packages: Path, sandbox_tmp: Path) -> None:
    """The test-suite of a project of usual size, click's, passes inside as its authors wrote it."""
    version = "8.1.8"
    pip("install", "--target", str(packages / "site"), "pytest==8.3.4", f"click=={version}")
    pip("download", "--no-deps", "--no-binary", ":all:", "--dest", str(packages), f"click=={version}")
    sandbox = make(mounts=[Mount(str(packages), "/packages")], env={"PYTHONPATH": "/packages/site"})
    worked(sandbox.exec(f"tar -xzf /packages/click-{version}.tar.gz"))
    output = worked(sandbox.exec("python3 -m pytest -q -p no:cacheprovider tests", cwd=f"click-{version}", timeout=300))
    assert int(output.splitlines()[-1].split()[0]) > 500, output[-500:]
