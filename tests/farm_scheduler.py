"""`python -m tests.farm_scheduler`: the product's scheduler whose scripts may ask for `noop`."""

import sys

from scheduler.service import main
from shared.model.ops import NOOP, register

if __name__ == "__main__":
    register(NOOP)
    sys.exit(main())
