"""One query process of a cluster: replicas need nothing of each other, and a question may go to any."""

from compose.local.query_process import note_signals, serve
from shared.errors import InvalidInput
from shared.settings import Settings


async def run_query_member(settings: Settings) -> None:
    """Serve until a signal; streams that are open then say so and end. Raises CortexError where a part cannot be opened.

    Until the parts are open a signal ends the process as signals do: nothing has been taken yet.
    """
    if settings.kafka_bootstrap is None:
        raise InvalidInput("CORTEX_KAFKA_BOOTSTRAP is not set: `cortex up` runs Cortex with a broker of its own.")
    await serve(settings, note_signals)
