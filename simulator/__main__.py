"""`python -m simulator`."""

import sys

from simulator.command_line import main

if __name__ == "__main__":
    sys.exit(main())
