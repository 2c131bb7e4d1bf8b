"""Several files and their data, as a project has them."""

import os
from pathlib import Path

from model import train

rows = [line.split(",") for line in Path("points.csv").read_text().splitlines()]
slope, start = train([(float(x), float(y)) for x, y in rows])
result = f"y = {slope:.1f} x + {start:.1f}"
print(f"from {len(rows)} points: {result}", flush=True)  # noqa: T201 - the job's log
Path(os.environ["RESULTS"], "line.txt").write_text(f"{result}\n")
