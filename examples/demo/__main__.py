"""`python -m examples.demo`, from the checkout, runs the demo."""

import sys

from examples.demo.story import main

if __name__ == "__main__":
    sys.exit(main())
