"""`python -m aioanalysis`."""

from aioanalysis.cli import main

if __name__ == "__main__":
    main()
