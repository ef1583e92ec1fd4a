"""The command line: ``cortex up | publish | ask | status | feed``."""
