"""`python -m cannery`: the command line."""

from cannery.cli import main

if __name__ == "__main__":
    main()
