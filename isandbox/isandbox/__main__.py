"""``python -m isandbox``: the command line, where its script is not on the PATH."""

from isandbox.cli import main

if __name__ == "__main__":
    main(prog_name="python -m isandbox")
