"""Every tool that a client executes is in the tables of tools that clients keep of their own."""

import re
from pathlib import Path

from codelab.protocol.tools import CATALOGUE
from codelab_client.acp import tool_calls
from codelab_client.tools import executor
from codelab_client.tools.risks import READS

TOOLS = {name: tool for name, tool in CATALOGUE.items() if not tool.server_side}
DECISIONS = Path(__file__).parents[2] / "clients/typescript/src/decisions.ts"


def test_clients_know_by_themselves_which_tools_change_nothing() -> None:
    """A server may say so of others."""
    assert {name for name, tool in TOOLS.items() if tool.risk == "read"} == READS, "see READS of tools/risks.py"
    found = re.search(
        r"^const READS = new Set\(\[(.*?)\]\)", DECISIONS.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    assert found is not None
    assert {*re.findall(r'"([^"]+)"', found[1])} == READS - {"fetch_url"}, "see READS of decisions.ts"


def test_an_editor_is_told_of_which_kind_a_call_is() -> None:
    without = {"git.branch", "git.commit", "prompt_user"}
    assert TOOLS.keys() - without <= tool_calls._KINDS.keys(), "see _KINDS of acp/tool_calls.py"


def test_tools_that_only_read_files_read_those_of_other_folders_too() -> None:
    reading = {name for name in READS if "path" in TOOLS[name].paths and not name.startswith("git.")}
    assert reading == executor._READING, "see _READING of tools/executor.py"
