"""Agents on occupancy measures: O-REPS, UOB-REPS and FTRL, and Newton's methods for them."""
