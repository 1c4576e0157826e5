"""`python -m lampnet` is the command line."""

from lampnet.cli import main

if __name__ == "__main__":
    main()
