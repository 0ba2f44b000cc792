"""Checkpoints of a workspace, so that the user can see and take back what a turn did, shell commands included."""

from codelab_client.checkpoints.checkpoints import Checkpoint, Checkpoints, Undone
from codelab_client.checkpoints.shadow import CheckpointFailed

__all__ = ["Checkpoint", "CheckpointFailed", "Checkpoints", "Undone"]
