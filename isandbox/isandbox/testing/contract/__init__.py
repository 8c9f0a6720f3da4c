"""The conformance suite: the definition of a backend.

Subclass `SandboxContract` in a test module, give it a ``create`` (and a ``lose``), and run pytest with
``asyncio_mode = "auto"``::

    class TestMine(SandboxContract):
        @classmethod
        def create(cls, **options):
            return create_sandbox("mine", **options)

    class TestMineBlocking(ThroughSync, TestMine): ...

A backend that claims ``detach`` also runs `DetachedContract`, with what makes its sandboxes in a class of their own::

    class Mine(Contract):  # create and lose, as above
        ...

    class TestMineDetached(DetachedContract, Mine): ...

Every promise is one test; its name and its docstring are the promise. Promises stand in groups; those whose names end with
``CommandPromises``, and `FileViewPromises`, take commands to hold, so that a backend that runs none can claim the rest. A
known gap is a row in ``gaps``: a strict expected failure with a decision record, never a weaker test.
"""

from isandbox.testing.contract.base import Contract, promises
from isandbox.testing.contract.callbacks import CallbackPromises
from isandbox.testing.contract.cancellation import CancellationCommandPromises, CancellationPromises
from isandbox.testing.contract.concurrency import ConcurrencyPromises
from isandbox.testing.contract.detached import Detached, DetachedPromises
from isandbox.testing.contract.detached_commands import DetachedCommandPromises
from isandbox.testing.contract.detached_kept import DetachedKeptCommandPromises
from isandbox.testing.contract.errors import ErrorCommandPromises, ErrorPromises
from isandbox.testing.contract.exec import ExecPromises
from isandbox.testing.contract.faults import FaultPromises
from isandbox.testing.contract.files import FilePromises, FileViewPromises
from isandbox.testing.contract.gaps import GAPS, Gap, gaps_of
from isandbox.testing.contract.handles import HandlePromises
from isandbox.testing.contract.inheritance import InheritancePromises
from isandbox.testing.contract.kept import ClaimPromises, KeptCommandPromises
from isandbox.testing.contract.lifecycle import LifecycleCommandPromises, LifecyclePromises
from isandbox.testing.contract.limits import LimitPromises
from isandbox.testing.contract.names import HostileNameCommandPromises, HostileNamePromises
from isandbox.testing.contract.output import OutputPromises
from isandbox.testing.contract.over_sync import ThroughSync
from isandbox.testing.contract.owned import OwnedCommandPromises, OwnedPromises
from isandbox.testing.contract.programs import ProgramPromises
from isandbox.testing.contract.quotas import QuotaPromises
from isandbox.testing.contract.stdin import StdinPromises
from isandbox.testing.contract.sync import SyncPromises
from isandbox.testing.contract.terminals import KeptTerminalPromises, TerminalPromises
from isandbox.testing.contract.transfers import TransferPromises, TransferViewPromises


class SandboxContract(
    ExecPromises,
    ProgramPromises,
    InheritancePromises,
    StdinPromises,
    OutputPromises,
    CallbackPromises,
    FaultPromises,
    LimitPromises,
    HandlePromises,
    ClaimPromises,
    KeptCommandPromises,
    TerminalPromises,
    KeptTerminalPromises,
    FilePromises,
    FileViewPromises,
    HostileNamePromises,
    HostileNameCommandPromises,
    QuotaPromises,
    TransferPromises,
    TransferViewPromises,
    LifecyclePromises,
    LifecycleCommandPromises,
    OwnedPromises,
    OwnedCommandPromises,
    ConcurrencyPromises,
    CancellationPromises,
    CancellationCommandPromises,
    SyncPromises,
    ErrorPromises,
    ErrorCommandPromises,
):
    """All groups but those of sandboxes that stay. A backend that claims only some subclasses those."""


class DetachedContract(
    Detached,
    LifecyclePromises,
    LifecycleCommandPromises,
    CancellationPromises,
    DetachedPromises,
    DetachedCommandPromises,
    DetachedKeptCommandPromises,
):
    """The groups about a sandbox's life, held by detached ones, and what only those promise: for who claims ``detach``."""


# In the order in which docs/contract.md lists them.
GROUPS = (*SandboxContract.__bases__, DetachedPromises, DetachedCommandPromises, DetachedKeptCommandPromises)

__all__ = [
    "GAPS",
    "GROUPS",
    "Contract",
    "Detached",
    "DetachedContract",
    "Gap",
    "SandboxContract",
    "ThroughSync",
    "gaps_of",
    "promises",
]
