"""Write the JSON Schemas that producers and subscribers use: ``python -m schemas.export`` (a test compares them)."""

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter

from schemas.answers import Answer, KnownUnit
from schemas.commands import Command, Job
from schemas.events import event_schema
from schemas.explanations import Explanation, Trace
from schemas.feed import FeedEvent
from schemas.graph import Contribution
from schemas.messages import Receipt, StageMessage
from schemas.problems import Problem
from schemas.questions import Question
from schemas.status import AcceptedBatch, EventStatus
from schemas.stream import StreamEvent
from schemas.units import Unit

FOLDER = Path(__file__).parent / "json"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
MODELS: dict[str, type[BaseModel]] = {
    "accepted-batch": AcceptedBatch,
    "answer": Answer,
    "command": Command,
    "contribution": Contribution,
    "event-status": EventStatus,
    "explanation": Explanation,
    "job": Job,
    "known-unit": KnownUnit,
    "problem": Problem,
    "question": Question,
    "receipt": Receipt,
    "stage-message": StageMessage,
    "trace": Trace,
    "unit": Unit,
}


def schemas() -> dict[str, dict[str, Any]]:
    """Return every exported JSON Schema by name."""
    made = {name: model.model_json_schema() for name, model in MODELS.items()}
    made["event"] = event_schema()
    stream: TypeAdapter[StreamEvent] = TypeAdapter(StreamEvent)
    made["stream-event"] = stream.json_schema()
    feed: TypeAdapter[FeedEvent] = TypeAdapter(FeedEvent)
    made["feed-event"] = feed.json_schema()
    return {name: {"$schema": DIALECT, **schema} for name, schema in sorted(made.items())}


def render(schema: dict[str, Any]) -> str:
    """Write one schema as it stands in its file."""
    return json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def main() -> None:
    """Write all files and remove those of models that are gone."""
    FOLDER.mkdir(exist_ok=True)
    made = schemas()
    for path in FOLDER.glob("*.json"):
        if path.stem not in made:
            path.unlink()
    for name, schema in made.items():
        (FOLDER / f"{name}.json").write_text(render(schema), encoding="utf-8")


if __name__ == "__main__":
    main()
