"""Other tools as targets of the containment probes: how their answers are read, and how the page is written."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from benchmarks.containment.report import Column, page
from benchmarks.containment.tool import Call, Tool, ToolBox
from benchmarks.containment.tools import TOOLS

from isandbox.errors import UnsupportedError
from isandbox.policy import Mount, Quotas
from isandbox.testing.containment import Finding


class Nothing(Tool):
    """A tool that adds nothing to the command."""

    name = "nothing"
    offers = frozenset({"mounts"})
    quotas = frozenset({"memory"})

    def command(self, call: Call) -> list[str]:
        return ["env", *call.argv]

    def version(self) -> str:
        return "nothing 1"


class TestCommands:
    @pytest_asyncio.fixture
    async def box(self) -> AsyncIterator[ToolBox]:
        async with Nothing().create() as box:
            yield box

    async def test_output_and_status_are_the_commands(self, box: ToolBox) -> None:
        """Streams stay apart, the status is the command's, and a shell's word for a signal is understood."""
        result = await box.exec("echo out; echo err >&2; exit 3")
        assert (result.stdout, result.stderr, result.exit_code, result.signal) == ("out\n", "err\n", 3, None)
        assert (await box.exec("exit 143")).signal == 15
        assert (await box.exec("kill -KILL $$")).exit_code == 137

    async def test_input_and_environment_arrive(self, box: ToolBox) -> None:
        """What is given to the command gets there, and without input there is none."""
        result = await box.exec('cat; echo "$GIVEN"', input="in\n", env={"GIVEN": "yes"})
        assert result.stdout == "in\nyes\n"
        assert (await box.exec("cat")).stdout == ""

    async def test_a_timeout_is_a_fault(self, box: ToolBox) -> None:
        """A command that takes too long is ended, with the fault that a probe asks about."""
        result = await box.exec("echo begun; sleep 60", timeout=0.3)
        assert (result.fault, result.stdout) == ("timeout", "begun\n")

    async def test_what_a_tool_does_not_have_is_refused(self, box: ToolBox) -> None:
        """Options and quotas that the tool lacks are errors, so that the probe says that they are not provided."""
        with pytest.raises(UnsupportedError, match="user"):
            await box.exec("true", user="root")
        tool = Nothing()
        with pytest.raises(UnsupportedError, match="workspace"):
            tool.create(workspace="/tmp")
        with pytest.raises(UnsupportedError, match="pids"):
            tool.create(quotas=Quotas(pids=3))
        async with tool.create(mounts=[Mount("/usr", "/usr")], quotas=Quotas(memory="64MiB")) as other:
            assert (await other.exec("true")).ok


def test_every_tool_says_how_it_is_called() -> None:
    """The page can show each command line as it is."""
    assert len({tool.name for tool in TOOLS}) == len(TOOLS) >= 4
    for tool in TOOLS:
        assert tool.command(Call(["COMMAND"], 1.0, "/nowhere")), tool.name
        assert tool.described().count("`") >= 2


def test_the_page_counts_what_its_table_shows() -> None:
    """Each probe has a line, each outcome a count for each tool, and a tool that was left out has its reason."""

    def column(name: str, outcome: str) -> Column:
        return Column(name, "1", "`x`", {"A01": Finding("A01", "Secrets | kept", "filesystem", outcome)})  # type: ignore[arg-type]

    machine = {"kernel": "6", "machine": "m", "python": "3", "cores": 2}
    text = page([column("ours", "BLOCKED"), column("theirs", "LEAK")], machine, {"third": "not installed"})
    assert "| A01 | Secrets \\| kept | blocked | **leak** |" in text
    assert "|  | blocked | 1 | 0 |" in text
    assert "|  | leak | 0 | 1 |" in text
    assert "**third** was left out: not installed" in text
