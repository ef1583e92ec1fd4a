"""``cortex model``: the embedding model that is searched, and changing it beside live events and questions."""

import json
from typing import Annotated, Any

import typer

from compose.cli import exits
from compose.cli.client import Client
from compose.cli.jobs import Reason, Wait, place_order
from compose.cli.main import URL, Json, OwnTenant, Token, Url

Name = Annotated[str, typer.Argument(help="The model's full name, as `cortex model show` tells it.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    model = typer.Typer(no_args_is_help=True, help="The embedding model that is searched, and changing it.")
    for command in (show, change, drop):
        model.command()(command)
    app.add_typer(model, name="model")


def show(url: Url = URL, token: Token = None, tenant: OwnTenant = None, as_json: Json = False) -> None:
    """Show which model is searched, which others are kept, and which can be changed to."""
    with Client(url, token, tenant) as client:
        found = client.get("/v1/models")
    print(json.dumps(found, ensure_ascii=False) if as_json else "\n".join(_lines(found)))
    raise typer.Exit(exits.OK)


def change(
    name: Name,
    reason: Reason = "",
    wait: Wait = False,
    url: Url = URL,
    token: Token = None,
    tenant: OwnTenant = None,
    as_json: Json = False,
) -> None:
    """Build this model's vectors beside the present ones, and search them once every text has them.

    Until then questions are answered from the old index. The model before is kept, and new events are embedded by both:
    going back is the same command with its name, and takes no time. `cortex model drop` ends that.
    """
    with Client(url, token, tenant) as client:
        body = {"model": name, "reason": reason}
        raise typer.Exit(place_order(client, "/v1/models/change", body, wait=wait, as_json=as_json))


def drop(
    name: Name,
    reason: Reason = "",
    wait: Wait = False,
    url: Url = URL,
    token: Token = None,
    tenant: OwnTenant = None,
    as_json: Json = False,
) -> None:
    """Forget the vectors of a model that is not searched, one that was given up while it was built included."""
    with Client(url, token, tenant) as client:
        body = {"model": name, "reason": reason}
        raise typer.Exit(place_order(client, "/v1/models/drop", body, wait=wait, as_json=as_json))


def _lines(found: dict[str, Any]) -> list[str]:
    lines = [
        f"{'searched' if model['active'] else 'kept    '}  {model['name']}  {model['dims']} dimensions"
        for model in found["models"]
    ]
    kept = {model["name"] for model in found["models"]}
    others = [name for name in found["configured"] if name not in kept]
    return [*(lines or ["nothing is indexed yet"]), *(f"possible  {name}" for name in others)]
