"""What a session's calls changed in a workspace, so that the user can see it, take it back and bring it back again."""

from codelab_client.checkpoints.checkpoints import Checkpoints
from codelab_client.checkpoints.folder import CheckpointFailed
from codelab_client.checkpoints.report import Paths, Report, report
from codelab_client.checkpoints.rewinding import FilesBack
from codelab_client.checkpoints.undoing import Extent, Undone

__all__ = ["CheckpointFailed", "Checkpoints", "Extent", "FilesBack", "Paths", "Report", "Undone", "report"]
