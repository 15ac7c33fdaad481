"""Runs of a script that is written as the body of its `main`."""

from tests.integration.engine.hands import echo

SCHEMA = (
    'S = {"type": "object", "additionalProperties": False, "required": ["said"], '
    '"properties": {"said": {"type": "string"}}}\n'
)
HEAD = "a" * 40


def script(body, head=SCHEMA):
    return head + "async def main(flow, args):\n" + "".join(f"    {line}\n" for line in body.strip().splitlines())


def run(field, body, answer=echo, head=SCHEMA, args=None, **spec):
    run_id = field.submit(script(body, head), args, **spec)
    field.drive(answer)
    return run_id, field.end(run_id)
