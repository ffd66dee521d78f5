"""`python -m operations` is `muster-ops`."""

from operations.cli import main

if __name__ == "__main__":
    main()
