"""The conformance suite: the definition of a backend.

Subclass `SandboxContract` in a test module, give it a ``create`` (and a ``lose``), and run pytest with
``asyncio_mode = "auto"``::

    class TestMine(SandboxContract):
        @classmethod
        def create(cls, **options):
            return create_sandbox("mine", **options)

Every promise is one test; its name and its docstring are the promise. A known gap of a backend is a strict expected
failure with a decision record, never a weaker test.
"""

from isandbox.testing.contract.base import promises
from isandbox.testing.contract.exec import ExecPromises
from isandbox.testing.contract.faults import FaultPromises
from isandbox.testing.contract.files import FilePromises, FileViewPromises
from isandbox.testing.contract.handles import HandlePromises
from isandbox.testing.contract.inheritance import InheritancePromises
from isandbox.testing.contract.lifecycle import LifecyclePromises
from isandbox.testing.contract.output import OutputPromises
from isandbox.testing.contract.stdin import StdinPromises
from isandbox.testing.contract.transfers import TransferPromises, TransferViewPromises


class SandboxContract(
    ExecPromises,
    InheritancePromises,
    StdinPromises,
    OutputPromises,
    FaultPromises,
    HandlePromises,
    FilePromises,
    FileViewPromises,
    TransferPromises,
    TransferViewPromises,
    LifecyclePromises,
):
    """All groups. A backend that claims only some subclasses those."""


# In the order in which docs/contract.md lists them.
GROUPS = SandboxContract.__bases__

__all__ = ["GROUPS", "SandboxContract", "promises"]
