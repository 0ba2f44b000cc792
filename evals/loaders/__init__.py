"""Tasks of others in other forms, written out in Harbor's: Aider's exercises, SWE-bench's instances, single edits.

Nothing is fetched: the exercises, the instances and the repositories are named by their paths. What cannot be graded
here is left out, and said.
"""

from evals.loaders.graders import VITEST_GRADER
from evals.loaders.left_out import LeftOut
from evals.loaders.polyglot import polyglot
from evals.loaders.single_edits import single_edits
from evals.loaders.swe_bench import swe_bench

__all__ = ["VITEST_GRADER", "LeftOut", "polyglot", "single_edits", "swe_bench"]
