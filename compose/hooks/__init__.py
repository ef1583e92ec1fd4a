"""Hooks of agents: what is known goes into a prompt, what was learnt comes out of an exchange. Standard library only."""
