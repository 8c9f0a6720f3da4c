"""Start: ``python -I -S -B __main__.py DIRECTORY``, with psutil in DIRECTORY, the plan on fd 3 and the control socket on fd 4."""

from __future__ import annotations

import sys
from importlib import import_module
from os.path import abspath, dirname


def main() -> None:
    # Last in the path, and only as long as the imports take: neither place may stand in for a module of the library.
    places = [dirname(dirname(abspath(__file__))), *sys.argv[1:2]]
    sys.path += places
    start = import_module("py_helper.start")
    del sys.path[-len(places) :]
    start.main()


if __name__ == "__main__":
    main()
