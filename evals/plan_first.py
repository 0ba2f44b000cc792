"""`codelab exec` with a plan before the work: whoever measures stands in for the user, and accepts each plan.

A session begins in the mode `plan`, so the server refuses every change until a plan is accepted, which only a human's
decision does: no policy can. So this is a program of its own, run by the Python of the checkout that is measured. It
prints its events as `codelab exec --json` does, and ends with 0 after a turn that was completed, and else with 1. Of a
project's own permissions, agents and hooks it knows nothing; our tasks have none.
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from codelab_client import one_prompt
from codelab_client.local_executor import LocalExecutor
from codelab_client.policy import Policy
from codelab_client.session import Address, Session, connect
from codelab_client.session import events as on
from codelab_client.unattended import unattended_executor


async def run(options: argparse.Namespace, prompt: str) -> int:
    """The exit code."""
    policy, workspace = Policy.load(options.policy), options.workspace.resolve()
    local = LocalExecutor(workspace)
    executor, _ = await unattended_executor(local, workspace, one_prompt.say)
    opening = connect(Address.parse(options.url), workspace, executor=executor, situation=local.situation)
    async with opening as session:
        await session.instruct(*await local.about())
        await session.configure(mode="plan")
        async for event in session.prompt(prompt):
            print(json.dumps(on.as_json(event)), flush=True)  # noqa: T201 - as `codelab exec --json` does
            if isinstance(event, on.ToolCall) and event.requires_approval:
                await _decide(session, policy, event)
            elif isinstance(event, on.TurnEnd):
                return one_prompt.COMPLETED if event.reason == "completed" else one_prompt.FAILED
    return one_prompt.FAILED


async def _decide(session: Session, policy: Policy, call: on.ToolCall) -> None:
    arguments: Any = call.arguments
    if arguments is not None and (call.is_plan or policy.allows(call.tool_name, arguments)):
        mode = "code" if call.is_plan else None
        await session.approve(call.call_id, tool=call.tool_name, arguments=arguments, mode=mode)
    else:
        await session.reject(call.call_id, "The policy does not allow this call.")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="plan_first")
    parser.add_argument("--url", required=True)
    parser.add_argument("--workspace", type=Path, required=True)
    parser.add_argument("--policy", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(asyncio.run(run(_options(), sys.stdin.read())))
