"""The tools of the server: those that only answer here, those that ask in `asking`."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import asking
import changes
import mcp_types as types
from contents import audio, embedded, image, text
from mcp.shared.exceptions import MCPError
from questions import Unanswered

Content = list[dict[str, Any]]
STRING = {"type": "string"}


async def test_simple_text(_context: Any) -> Content:
    return [text("This is a simple text response for testing.")]


async def test_image_content(_context: Any) -> Content:
    return [image()]


async def test_audio_content(_context: Any) -> Content:
    return [audio()]


async def test_embedded_resource(_context: Any) -> Content:
    return [embedded("test://embedded-resource", "This is an embedded resource content.")]


async def test_multiple_content_types(_context: Any) -> Content:
    data = embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json")
    return [text("Multiple content types test:"), image(), data]


async def test_error_handling(_context: Any) -> Content:
    raise ValueError("This tool intentionally returns an error for testing")


async def test_tool_with_logging(context: Any) -> Content:
    for said in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await context.session.send_log_message("info", said, related_request_id=context.request_id)
        await anyio.sleep(0.05)
    return [text("It has logged three times.")]


async def test_tool_with_progress(context: Any) -> Content:
    for progress in (0, 50, 100):
        await context.session.report_progress(progress, 100)
        await anyio.sleep(0.05)
    return [text("It has made progress.")]


async def test_reconnection(_context: Any) -> Content:
    await anyio.sleep(1)
    return [text("It has taken its time.")]


async def test_trigger_tool_change(context: Any) -> Content:
    await changes.change(context, "tools")
    return [text("The tools have changed.")]


async def test_trigger_prompt_change(context: Any) -> Content:
    await changes.change(context, "prompts")
    return [text("The prompts have changed.")]


async def test_custom_header(_context: Any, region: str = "") -> Content:
    return [text(f"The region: {region}")]


async def json_schema_2020_12_tool(_context: Any, **_arguments: Any) -> Content:
    return [text("It was called.")]


PLAIN: list[Callable[..., Awaitable[Content]]] = [
    test_simple_text,
    test_image_content,
    test_audio_content,
    test_embedded_resource,
    test_multiple_content_types,
    test_error_handling,
    test_tool_with_logging,
    test_tool_with_progress,
    test_reconnection,
    test_trigger_tool_change,
    test_trigger_prompt_change,
    test_custom_header,
    json_schema_2020_12_tool,
]
TOOLS = {tool.__name__: tool for tool in PLAIN} | {"test_logging_tool": test_tool_with_logging} | asking.TOOLS
SCHEMAS: dict[str, dict[str, Any]] = {
    "test_sampling": {"type": "object", "properties": {"prompt": STRING}, "required": ["prompt"]},
    "test_elicitation": {"type": "object", "properties": {"message": STRING}, "required": ["message"]},
    "test_custom_header": {"type": "object", "properties": {"region": STRING | {"x-mcp-header": "Region"}}},
    # Words of JSON Schema 2020-12 that must arrive as they are.
    "json_schema_2020_12_tool": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"street": STRING, "city": STRING}}},
        "properties": {
            "name": STRING,
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": STRING,
            "email": STRING,
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
}


def input_schema(name: str) -> dict[str, Any]:
    return SCHEMAS.get(name, {"type": "object", "properties": {}})


async def list_all(_context: Any, _params: Any) -> types.ListToolsResult:
    names = list(TOOLS) + ["test_changing_tool"] * changes.has_changed("tools")
    tools = [{"name": name, "description": f"The tool {name}.", "inputSchema": input_schema(name)} for name in names]
    return types.ListToolsResult.model_validate({"tools": tools})


async def call(context: Any, params: Any) -> types.CallToolResult | dict[str, Any]:
    tool = TOOLS.get(params.name)
    if tool is None:
        raise MCPError(-32602, f"there is no tool {params.name}")
    try:
        content = await tool(context, **(params.arguments or {}))
        return types.CallToolResult.model_validate({"content": content})
    except Unanswered as unanswered:
        return unanswered.result
    except ValueError as error:
        return types.CallToolResult.model_validate({"content": [text(str(error))], "isError": True})
