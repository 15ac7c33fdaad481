"""Ids, errors, canonical JSON, settings, logging, child processes: no flow knowledge."""
