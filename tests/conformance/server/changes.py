"""Lists that change while the server runs, and who is told."""

from typing import Any

from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.subscriptions import PromptsListChanged, ToolsListChanged

bus = InMemorySubscriptionBus()
listen = ListenHandler(bus)
changed: set[str] = set()


def has_changed(what: str) -> bool:
    return what in changed


async def change(context: Any, what: str) -> None:
    """One more entry in this list, or one less."""
    changed.symmetric_difference_update({what})
    await bus.publish(ToolsListChanged() if what == "tools" else PromptsListChanged())
    if what == "tools":
        await context.session.send_tool_list_changed()
    else:
        await context.session.send_prompt_list_changed()
