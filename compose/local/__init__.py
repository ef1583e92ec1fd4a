"""The whole of Cortex on one machine: one command, one process tree."""
