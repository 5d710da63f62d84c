"""Agents in files: what a program calls. `belated.core.saving` has the format."""

from belated.core.saving import SavedFileError, load, register, save, saved_configuration

__all__ = ["SavedFileError", "load", "register", "save", "saved_configuration"]
