"""`python -m tests.farm_worker`: the product's worker that also knows `noop`."""

import sys

from workers.app import main
from workers.ops.noop import Noop
from workers.ops.op import register

if __name__ == "__main__":
    register(Noop())
    sys.exit(main())
