"""What is said: events, units, answers and stream events, as Pydantic models with exported JSON Schemas."""
