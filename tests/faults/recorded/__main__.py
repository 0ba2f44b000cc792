"""`python -m tests.faults.recorded FOLDER` records every state with the code as it is."""

import sys
from pathlib import Path

from tests.faults.recorded import record
from tests.faults.stage import Stage
from tests.quotas import USUAL

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
with Stage(**USUAL) as stage:
    for name, recorded in record(stage):
        recorded.write(folder / f"{name}.json")
