"""`python -m steelyard.cli.demo` shows the demo."""

import sys

from steelyard.cli.demo.story import main

if __name__ == "__main__":
    sys.exit(main())
