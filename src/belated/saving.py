"""Save agents to files and load them; `belated.core.saving` describes the format."""

from belated.core.saving import (
    SavedFileError as SavedFileError,
    load as load,
    save as save,
    saved_configuration as saved_configuration,
)
from belated.core.tree import register as register
