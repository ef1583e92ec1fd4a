"""What is said of a tenant's embedding models: which is searched, which is being built and how far, which are kept."""

from dataclasses import replace

import pytest

from compose.cli.model import told
from schemas.commands import ChangeModel, Command, JobState, accepted
from shared.settings import Settings
from shared.stores.memory import MemoryStore
from tests.integration.http_service import in_process, make_parts

pytestmark = [pytest.mark.integration, pytest.mark.anyio]


@pytest.fixture
async def parts():
    """An index of the model "old", and vectors of "new" beside it."""
    plain = make_parts()
    store = MemoryStore(plain.clock)
    for model, dims in (("old", 64), ("new", 96)):
        await store.add_model("demo", model, dims)
    return replace(plain, reader=store)


async def job(parts, name: str, state: JobState, *, model: str = "new", begun: bool = True, **given) -> None:
    """Let a change to a model be that far."""
    parts.clock.advance(1)
    at = parts.clock.now()
    command = Command(
        id=name, tenant="demo", requested_by="person-ana", requested_at=at, order=ChangeModel(model=model)
    )
    known = accepted(command).model_copy(update={"state": state, "started_at": at if begun else None, **given})
    await parts.reader.save_job("demo", known)


async def shown(parts) -> tuple[list, list[str]]:
    """Return what the service says of each model, and the lines that a terminal shows."""
    async with in_process(Settings(), parts) as client:
        found = (await client.get("/v1/models")).json()
    said = [(one["name"], one["state"], one.get("done"), one.get("total")) for one in found["models"]]
    return said, told(found)


async def test_a_model_that_was_searched_before_is_kept(parts):
    await job(parts, "c1", JobState.DONE, done=40, total=40)
    said, lines = await shown(parts)
    assert said == [("old", "searched", None, None), ("new", "kept", None, None)]
    assert lines == ["searched    old  64 dimensions", "kept        new  96 dimensions"]


async def test_a_model_that_is_being_built_says_how_far_it_is(parts):
    await job(parts, "c1", JobState.RUNNING, done=16, total=40)
    said, lines = await shown(parts)
    assert said[1] == ("new", "building", 16, 40)
    assert lines[1] == "building    new  96 dimensions, 16 of 40 texts"


@pytest.mark.parametrize("state", [JobState.CANCELLED, JobState.FAILED])
async def test_a_model_that_was_given_up_while_it_was_built_is_incomplete(parts, state):
    await job(parts, "c1", state, done=16, total=40)
    said, lines = await shown(parts)
    assert said[1] == ("new", "incomplete", 16, 40)
    assert lines[1] == "incomplete  new  96 dimensions, 16 of 40 texts"


async def test_a_change_that_never_began_and_one_to_another_model_say_nothing_of_it(parts):
    await job(parts, "c1", JobState.DONE, done=40, total=40)
    await job(parts, "c2", JobState.CANCELLED, begun=False)
    await job(parts, "c3", JobState.RUNNING, model="third", total=40)
    said, _ = await shown(parts)
    assert said[1] == ("new", "kept", None, None)


async def test_a_change_that_goes_on_after_one_was_given_up_is_building(parts):
    await job(parts, "c1", JobState.CANCELLED, done=16, total=40)
    await job(parts, "c2", JobState.RUNNING, done=3, total=24)
    said, _ = await shown(parts)
    assert said[1] == ("new", "building", 3, 24)
