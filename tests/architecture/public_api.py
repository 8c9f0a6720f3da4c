"""Write down the public API: what a reader of `isandbox` can rely on. Regenerate after a change that is meant:

python tests/architecture/public_api.py > tests/architecture/public_api.txt
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator

import isandbox
import isandbox.sync


def lines() -> Iterator[str]:
    yield f"isandbox.__all__ = {' '.join(isandbox.__all__)}"
    yield f"isandbox.sync.__all__ = {' '.join(isandbox.sync.__all__)}"
    for module in (isandbox, isandbox.sync):
        for name in module.__all__:
            yield from described(f"{module.__name__}.{name}", getattr(module, name))
    from isandbox._request import make_request

    yield from described("options of create_sandbox", make_request)


def described(name: str, value: object) -> Iterator[str]:
    if inspect.isfunction(value):
        yield f"{name}{inspect.signature(value)}"
    elif inspect.isclass(value):
        bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
        yield f"class {name}({bases})"
        if dataclasses.is_dataclass(value):
            for field in dataclasses.fields(value):
                yield f"  {field.name}: {field.type}{default(field)}"
        yield from members(value)


def default(field: dataclasses.Field[object]) -> str:
    if field.default is not dataclasses.MISSING:
        return f" = {field.default!r}"
    return " = ..." if field.default_factory is not dataclasses.MISSING else ""


def members(cls: type) -> Iterator[str]:
    fields = {field.name for field in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else set()
    for name, member in sorted(vars(cls).items()):
        if name.startswith("_") and name not in {"__aenter__", "__aexit__", "__enter__", "__exit__", "__aiter__", "__iter__"}:
            continue
        if name in fields:
            continue
        if inspect.isfunction(member):
            kind = "async def" if inspect.iscoroutinefunction(member) else "def"
            yield f"  {kind} {name}{inspect.signature(member)}"
        elif not inspect.ismemberdescriptor(member):
            yield f"  {name}" if not isinstance(member, (str, bool, int)) else f"  {name} = {member!r}"


if __name__ == "__main__":
    print("\n".join(lines()))
