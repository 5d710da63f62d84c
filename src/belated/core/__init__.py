"""The part that knows neither states nor features: episodes, records, delays, wrappers, files."""
