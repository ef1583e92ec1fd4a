"""Cortex for agents that speak the Model Context Protocol: tools and resources over the public HTTP API."""
