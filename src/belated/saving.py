"""Save agents to files and load them; `belated.core.saving` describes the format."""

from belated.core.saving import SavedFileError, load, save, saved_configuration
from belated.core.tree import register

__all__ = ["SavedFileError", "load", "register", "save", "saved_configuration"]
