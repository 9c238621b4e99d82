"""The same work in the Python form, wherever a compiled form is: ``python -m bench.contenders.our_pure_loop JOB``."""

from __future__ import annotations

import os
import sys

os.environ["CONVERSATIONS_PURE"] = "1"  # before the package is imported, because its import chooses the form

from bench.contenders import our_loop
from bench.workload import Job

if __name__ == "__main__":
    job = Job.from_json(sys.argv[1])
    our_loop.run(job, our_loop.service_of(job))
