"""The resources of the server."""

import json
import re
from typing import Any

import mcp_types as types
from contents import PNG
from mcp.shared.exceptions import MCPError

RESOURCES = {
    "test://static-text": {"mimeType": "text/plain", "text": "This is the content of the static text resource."},
    "test://static-binary": {"mimeType": "image/png", "blob": PNG},
    "test://watched-resource": {"mimeType": "text/plain", "text": "This is a resource that is watched."},
}
TEMPLATE = "test://template/{id}/data"


async def list_all(_context: Any, _params: Any) -> types.ListResourcesResult:
    entries = [entry(uri, content["mimeType"]) | {"uri": uri} for uri, content in RESOURCES.items()]
    return types.ListResourcesResult.model_validate({"resources": entries})


async def list_templates(_context: Any, _params: Any) -> types.ListResourceTemplatesResult:
    entries = [entry(TEMPLATE, "application/json") | {"uriTemplate": TEMPLATE}]
    return types.ListResourceTemplatesResult.model_validate({"resourceTemplates": entries})


def entry(uri: str, kind: str) -> dict[str, Any]:
    return {"name": uri.removeprefix("test://"), "description": f"The resource {uri}.", "mimeType": kind}


async def read(_context: Any, params: Any) -> types.ReadResourceResult:
    uri = str(params.uri)
    return types.ReadResourceResult.model_validate({"contents": [{"uri": uri, **content(uri)}]})


def content(uri: str) -> dict[str, Any]:
    if uri in RESOURCES:
        return RESOURCES[uri]
    if found := re.fullmatch("test://template/([^/]+)/data", uri):
        data = {"id": found[1], "templateTest": True, "data": f"Data for ID: {found[1]}"}
        return {"mimeType": "application/json", "text": json.dumps(data)}
    raise MCPError(-32602, "Resource not found", {"uri": uri})
