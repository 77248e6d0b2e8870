"""Rouse for Python; the standard library is all it needs."""

from .checkpoint import (
    Checkpoint,
    CheckpointDamaged,
    CheckpointError,
    CheckpointNotFound,
    MirrorFailed,
    Saved,
)

__all__ = ["Checkpoint", "CheckpointDamaged", "CheckpointError", "CheckpointNotFound", "MirrorFailed", "Saved"]
__version__ = "0.1.0"
