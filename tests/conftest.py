from hypothesis import settings

from limits import FULL

# Compilation on a first call takes longer than any deadline; runs must repeat exactly.
examples = 60 if FULL else 30
settings.register_profile("belated", deadline=None, derandomize=True, max_examples=examples)
settings.load_profile("belated")
