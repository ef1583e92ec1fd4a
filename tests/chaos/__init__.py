"""Chaos: processes are killed, frozen and joined while events are handled, and nothing may be lost or done twice.

``python -m tests.chaos --help`` says what can be chosen; the seed gives the same events and the same disturbances again.
"""
