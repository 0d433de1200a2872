"""``python -m onepos`` is ``onepos``."""

from onepos.cli import main

if __name__ == "__main__":
    main()
