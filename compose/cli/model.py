"""``cortex model``: the embedding model that is searched, and changing it beside live events and questions."""

from collections.abc import Callable
from typing import Annotated, Any, Final

import typer

from compose.cli import exits
from compose.cli.client import Client
from compose.cli.main import URL, Json, OwnTenant, Token, Url
from compose.cli.orders import Reason, Wait, place_order, print_json

CHANGE: Final = """Build this model's vectors beside the present ones, and search them once every text has them.

Until then questions are answered from the old index. The model before is kept, and new events are embedded by both: going back
is the same command with its name, and takes no time. `cortex model drop` ends that.
"""
DROP: Final = "Forget the vectors of a model that is not searched, one that was given up while it was built included."

Name = Annotated[str, typer.Argument(help="The model's full name, as `cortex model show` tells it.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    model = typer.Typer(no_args_is_help=True, help="The embedding model that is searched, and changing it.")
    model.command()(show)
    model.command("change")(_ordering("/v1/models/change", CHANGE))
    model.command("drop")(_ordering("/v1/models/drop", DROP))
    app.add_typer(model, name="model")


def show(url: Url = URL, token: Token = None, tenant: OwnTenant = None, as_json: Json = False) -> None:
    """Show which model is searched, which are being built and how far, which are kept, and which can be changed to."""
    with Client(url, token, tenant) as client:
        found = client.get("/v1/models")
    print_json(found) if as_json else print("\n".join(told(found)))
    raise typer.Exit(exits.OK)


def _ordering(path: str, words: str) -> Callable[..., None]:
    """Return the command that gives an order about a model."""

    def order(
        name: Name,
        reason: Reason = "",
        wait: Wait = False,
        url: Url = URL,
        token: Token = None,
        tenant: OwnTenant = None,
        as_json: Json = False,
    ) -> None:
        with Client(url, token, tenant) as client:
            place_order(client, path, {"model": name, "reason": reason}, wait=wait, as_json=as_json)

    order.__doc__ = words
    return order


def told(found: dict[str, Any]) -> list[str]:
    """Return a line a model: what it is for, its name, how long its vectors are, and how far it is where it is not whole."""
    lines = [f"{one['state']:<10}  {one['name']}  {one['dims']} dimensions{_progress(one)}" for one in found["models"]]
    kept = {model["name"] for model in found["models"]}
    others = [name for name in found["configured"] if name not in kept]
    return [*(lines or ["nothing is indexed yet"]), *(f"{'possible':<10}  {name}" for name in others)]


def _progress(model: dict[str, Any]) -> str:
    return f", {model['done']} of {model['total']} texts" if model.get("total") is not None else ""
