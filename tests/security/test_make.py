"""What a user gives to make is text: neither make nor the shell executes anything in it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = (
    "PARAMETERS",
    "STACK",
    "USER",
    "HOURS",
    "PLAN",
    "MODEL_FILE",
    "WORKSPACE",
    "YES",
    "ARGS",
    "AWS_REGION",
    "LLM_API_KEY",
)
#: The project's Makefile, and a target that shows what a command gets.
PROBE = """\
include Makefile
probe:
\t@printenv $(NAME)
again:
\t@$(MAKE) --no-print-directory -f $(firstword $(MAKEFILE_LIST)) probe
"""

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


@pytest.fixture
def owned(tmp_path: Path) -> Path:
    """A file that an executed value would make."""
    (tmp_path / "probe.mk").write_text(PROBE)
    return tmp_path / "owned"


def make(folder: Path, *arguments: str, **environment: str) -> str:
    command = ["make", "--silent", "-f", str(folder / "probe.mk"), *arguments]
    given = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(
        command, cwd=ROOT, env=given | environment, capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout + done.stderr


def hostile(owned: Path) -> str:
    return f"A=$(shell touch {owned}) B=$$x C=$(HOME) D=`touch {owned}` E='a b' F=\"$(touch {owned})\" #G ${{PATH}} \\"


@pytest.mark.parametrize("target", ["probe", "again"])
@pytest.mark.parametrize("name", NAMES)
def test_a_value_on_the_command_line_is_not_executed(owned: Path, name: str, target: str) -> None:
    value = hostile(owned)
    assert make(owned.parent, target, f"NAME={name}", f"{name}={value}") == f"{value}\n"
    assert not owned.exists()


def test_a_value_of_the_environment_is_not_executed(owned: Path) -> None:
    value = hostile(owned)
    assert make(owned.parent, "again", "NAME=PARAMETERS", PARAMETERS=value) == f"{value}\n"
    assert make(owned.parent, "again", "NAME=XDG_CONFIG_HOME", XDG_CONFIG_HOME=value) == f"{value}\n"
    assert not owned.exists()


@pytest.mark.parametrize("target", ["run", "codelab", "bench-peers", "deploy", "token", "destroy"])
def test_no_recipe_has_the_value_in_its_text(owned: Path, target: str) -> None:
    value = hostile(owned)
    said = make(owned.parent, "-n", target, *(f"{name}={value}" for name in NAMES), XDG_CONFIG_HOME=value)
    assert f"touch {owned}" not in said
    assert "infra.stack" in said or "codelab" in said or "benchmarks" in said
    assert not owned.exists()


def test_words_for_a_program_are_split_and_not_executed(owned: Path) -> None:
    (owned.parent / "probe.mk").write_text("include Makefile\nprobe:\n\t@$(WITH_ARGS) /usr/bin/printf '[%s]'\n")
    said = make(owned.parent, "probe", f"ARGS=--continue 'a b' $(touch {owned}) `touch {owned}` ; touch {owned}")
    assert said.startswith("[--continue][a b][$(touch]")
    assert not owned.exists()


def test_a_user_must_be_named_on_the_command_line(owned: Path) -> None:
    assert "name the user" in make(owned.parent, "-n", "token", USER="ann", GIVEN="USER")
    assert "infra.stack token" in make(owned.parent, "-n", "token", "USER=ann")
