from hypothesis import settings

# Compilation on a first call takes longer than any deadline; runs must repeat exactly.
settings.register_profile("belated", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("belated")
