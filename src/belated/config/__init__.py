"""Agents and their parts as a file names them."""
