"""``python -m repalign`` and the command ``repalign``."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C while it is loaded ends as quietly as later."""
    try:
        from repalign.cli.app import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
