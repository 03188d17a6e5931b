"""The prompts of the server."""

from typing import Any

import changes
import mcp_types as types
from contents import embedded, image, text
from mcp.shared.exceptions import MCPError
from questions import Unanswered, ask, elicitation

PROMPTS: dict[str, list[str]] = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
    "test_prompt_with_image": [],
    "test_input_required_result_prompt": [],
}


async def list_all(_context: Any, _params: Any) -> types.ListPromptsResult:
    names = list(PROMPTS) + ["test_changing_prompt"] * changes.has_changed("prompts")
    return types.ListPromptsResult.model_validate({"prompts": [entry(name) for name in names]})


def entry(name: str) -> dict[str, Any]:
    arguments = [{"name": argument, "description": argument, "required": True} for argument in PROMPTS.get(name, [])]
    return {"name": name, "description": f"The prompt {name}.", "arguments": arguments}


async def get(context: Any, params: Any) -> types.GetPromptResult | dict[str, Any]:
    arguments = params.arguments or {}
    try:
        said = await contents(context, params.name, arguments)
    except Unanswered as unanswered:
        return unanswered.result
    messages = [{"role": "user", "content": content} for content in said]
    return types.GetPromptResult.model_validate({"messages": messages})


async def contents(context: Any, name: str, arguments: dict[str, str]) -> list[dict[str, Any]]:
    match name:
        case "test_simple_prompt" | "test_changing_prompt":
            return [text("This is a simple prompt for testing.")]
        case "test_prompt_with_arguments":
            return [text(f"Prompt with arguments: arg1='{arguments.get('arg1')}', arg2='{arguments.get('arg2')}'")]
        case "test_prompt_with_embedded_resource":
            uri = arguments.get("resourceUri", "test://static-text")
            return [embedded(uri, "Embedded resource content for testing."), text("Please process the resource above.")]
        case "test_prompt_with_image":
            return [image(), text("Please analyze the image above.")]
        case "test_input_required_result_prompt":
            question = elicitation("What context should the prompt use?", context={"type": "string"})
            return [text(f"The context: {await ask(context, {'user_context': question})}")]
    raise MCPError(-32602, f"there is no prompt {name}")
