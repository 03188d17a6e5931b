"""The tools that ask the client something before they answer."""

from typing import Any

from contents import text
from questions import Question, ask, can_answer, demand, elicitation, roots, sampling

STRING = {"type": "string"}
NAME = elicitation("What is your name?", name=STRING)
CONFIRM = elicitation("Please confirm", ok={"type": "boolean"})
CAPITAL = sampling("What is the capital of France?")
ENUM = ["option1", "option2", "option3"]


def titled(kind: str) -> list[dict[str, str]]:
    return [{"const": f"value{number}", "title": f"{word} {kind}"} for number, word in enumerate(("First", "Second", "Third"), 1)]


DEFAULTS = elicitation(
    "Please review",
    [],
    name=STRING | {"default": "John Doe"},
    age={"type": "integer", "default": 30},
    score={"type": "number", "default": 95.5},
    status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    verified={"type": "boolean", "default": True},
)
ENUMS = elicitation(
    "Please choose",
    [],
    untitledSingle={"type": "string", "enum": ENUM},
    titledSingle={"type": "string", "oneOf": titled("Option")},
    legacyEnum={"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]},
    untitledMulti={"type": "array", "items": {"type": "string", "enum": ENUM}},
    titledMulti={"type": "array", "items": {"anyOf": titled("Choice")}},
)


def asks(*rounds: dict[str, Question]) -> Any:
    """A tool that answers with the client's answers."""

    async def tool(context: Any) -> list[dict[str, Any]]:
        return [text(f"The answers: {await ask(context, *rounds)}")]

    return tool


async def test_sampling(context: Any, prompt: str) -> list[dict[str, Any]]:
    answers = await ask(context, {"response": sampling(prompt)})
    return [text(f"LLM response: {answers['response']['content']}")]


async def test_elicitation(context: Any, message: str) -> list[dict[str, Any]]:
    answers = await ask(context, {"response": elicitation(message, username=STRING, email=STRING)})
    return [text(f"User response: {answers['response']}")]


async def test_missing_capability(context: Any) -> list[dict[str, Any]]:
    demand(context, CAPITAL)
    return [text("The client can sample.")]


async def test_input_required_result_capabilities(context: Any) -> list[dict[str, Any]]:
    questions = {"user_name": NAME, "capital_question": CAPITAL, "client_roots": roots()}
    possible = {key: question for key, question in questions.items() if can_answer(context, question)}
    return [text(f"The answers: {await ask(context, possible)}")]


TOOLS: dict[str, Any] = {
    "test_sampling": test_sampling,
    "test_elicitation": test_elicitation,
    "test_elicitation_sep1034_defaults": asks({"response": DEFAULTS}),
    "test_elicitation_sep1330_enums": asks({"response": ENUMS}),
    "test_missing_capability": test_missing_capability,
    "test_streaming_elicitation": asks({"user_name": NAME}),
    "test_input_required_result_elicitation": asks({"user_name": NAME}),
    "test_input_required_result_sampling": asks({"capital_question": CAPITAL}),
    "test_input_required_result_list_roots": asks({"client_roots": roots()}),
    "test_input_required_result_request_state": asks({"confirm": CONFIRM}),
    "test_input_required_result_tampered_state": asks({"confirm": CONFIRM}),
    "test_input_required_result_multiple_inputs": asks(
        {"user_name": NAME, "greeting": sampling("Generate a greeting", 50), "client_roots": roots()}
    ),
    "test_input_required_result_multi_round": asks(
        {"step1": elicitation("Step 1: What is your name?", name=STRING)},
        {"step2": elicitation("Step 2: What is your favorite color?", color=STRING)},
    ),
    "test_input_required_result_capabilities": test_input_required_result_capabilities,
}
