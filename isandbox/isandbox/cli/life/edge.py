"""What every command does at its edge: descriptors that are there, errors in one line, the exit codes of isandbox's own."""

from __future__ import annotations

from collections.abc import Callable

from isandbox.cli._output import say_failure
from isandbox.cli._streams import OUTPUT_CLOSED, OutputClosedError, hold_standard_descriptors
from isandbox.errors import SandboxError

INTERRUPTED = 130


class SignalledError(Exception):
    """SIGTERM or SIGHUP came, or the terminal is gone; ``number`` is the signal's."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def guarded(work: Callable[[], int], *, as_json: bool = False) -> int:
    """The exit code that ``work`` gives; 125 and one line, or one object, for an error of ours; 141 when nobody reads our output;
    130 for a Ctrl-C that was not passed on; 128 + n for a signal that ended a session.
    """
    hold_standard_descriptors()
    try:
        return work()
    except OutputClosedError:
        return OUTPUT_CLOSED
    except (SandboxError, OSError) as error:
        return say_failure(error, as_json=as_json)
    except SignalledError as error:
        return 128 + error.number
    except KeyboardInterrupt:
        return INTERRUPTED
