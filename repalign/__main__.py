"""``python -m repalign`` is the command ``repalign``."""

from repalign.cli.app import main

if __name__ == "__main__":
    main()
