"""What the server asks its client in the middle of a request: by requests of its own in the legacy era, by its result in the modern one."""

import json
from collections.abc import Sequence
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

Question = dict[str, Any]

RESULTS: dict[str, Any] = {
    "elicitation/create": (types.ElicitRequest, types.ElicitResult),
    "sampling/createMessage": (types.CreateMessageRequest, types.CreateMessageResult),
    "roots/list": (types.ListRootsRequest, types.ListRootsResult),
}
CAPABILITIES = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}
MISSING_CAPABILITY = -32021


class Unanswered(Exception):
    """The questions that the client must answer before the request can go on: the result of a modern one."""

    def __init__(self, questions: dict[str, Question], state: str) -> None:
        self.result = {"resultType": "input_required", "inputRequests": questions, "requestState": state}


def elicitation(message: str, required: Sequence[str] | None = None, **properties: Any) -> Question:
    schema = {"type": "object", "properties": properties, "required": list(properties if required is None else required)}
    return {"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}}


def sampling(text: str, tokens: int = 100) -> Question:
    message = {"role": "user", "content": {"type": "text", "text": text}}
    return {"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": tokens}}


def roots() -> Question:
    return {"method": "roots/list", "params": {}}


async def ask(context: Any, *rounds: dict[str, Question]) -> dict[str, Any]:
    """The answers to all questions, round by round. In the modern era it raises until the client has brought them."""
    if not is_modern(context):
        asked = [item for questions in rounds for item in questions.items()]
        return {key: await request(context, question) for key, question in asked}
    params = context.params or {}
    state = json.loads(params.get("requestState") or "{}")
    number, answers = state.get("round", 0), state.get("answers", {})
    brought = params.get("inputResponses") or {}
    if all(answered(question, brought.get(key)) for key, question in rounds[number].items()):
        answers |= {key: brought[key] for key in rounds[number]}
        number += 1
    if number == len(rounds):
        return answers
    raise Unanswered(rounds[number], json.dumps({"round": number, "answers": answers}))


def answered(question: Question, answer: Any) -> bool:
    member = {"elicitation/create": "action", "sampling/createMessage": "content", "roots/list": "roots"}[question["method"]]
    return isinstance(answer, dict) and member in answer


async def request(context: Any, question: Question) -> dict[str, Any]:
    kind, result = RESULTS[question["method"]]
    metadata = ServerMessageMetadata(related_request_id=context.request_id)
    answer = await context.session.send_request(kind.model_validate(question), result, metadata=metadata)
    return answer.model_dump(by_alias=True, mode="json", exclude_none=True)


def is_modern(context: Any) -> bool:
    return context.protocol_version >= "2026-07-28"


def can_answer(context: Any, question: Question) -> bool:
    capabilities = context.session.client_capabilities
    return capabilities is not None and getattr(capabilities, CAPABILITIES[question["method"]]) is not None


def demand(context: Any, question: Question) -> None:
    """Refuses a client that has not said that it can answer this."""
    if not can_answer(context, question):
        needed = {CAPABILITIES[question["method"]]: {}}
        raise MCPError(MISSING_CAPABILITY, "the client lacks a capability", {"requiredCapabilities": needed})
