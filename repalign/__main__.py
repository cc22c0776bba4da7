"""``python -m repalign`` and the command ``repalign``."""

import sys


def main() -> None:
    """Run the command line; report failures while it is loaded too."""
    try:
        from repalign.cli.app import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as failure:  # noqa: BLE001 - most of all memory that is too small to load numpy
        from repalign.cli.failures import report_failure

        sys.exit(report_failure(failure))
    run()


if __name__ == "__main__":
    main()
