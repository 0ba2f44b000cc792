"""Settings in files: what the user's say, and what a workspace's may not."""

import os
from pathlib import Path

import pytest
from codelab_client.config import Config, ConfigError, SandboxConfig, config_file, load


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "ws" / ".codelab").mkdir(parents=True)
    config_file().parent.mkdir(parents=True)
    return tmp_path / "ws"


def own(workspace: Path, text: str) -> None:
    (workspace / ".codelab" / "config.toml").write_text(text)


def test_the_users_file_for_this_workspace_comes_before_the_workspaces_and_that_before_the_users(
    workspace: Path,
) -> None:
    config_file().write_text(
        'url = "wss://box/prod"\nagent = "a"\nmodel = "a"\n[sandbox]\nnetwork = true\nvariables = ["X"]\n'
        f'[workspaces."{workspace}"]\nagent = "c"\n[workspaces."{workspace}".sandbox]\nnetwork = false\n'
        '[workspaces."/other"]\nagent = "d"\n'
    )
    own(workspace, 'agent = "b"\nmodel = "b"\n')
    sandbox = SandboxConfig(network=False, variables=("X",))
    assert load(workspace) == Config(url="wss://box/prod", agent="c", model="b", sandbox=sandbox)


def test_without_files_everything_has_its_default(workspace: Path) -> None:
    assert load(workspace) == Config()


@pytest.mark.parametrize("line", ['url = "ws://evil"', "[sandbox]\nnetwork = true", 'rest_url = "x"', "[workspaces]"])
def test_a_workspace_decides_neither_where_to_connect_nor_what_commands_may_do(workspace: Path, line: str) -> None:
    own(workspace, line)
    with pytest.raises(ConfigError, match="is not for a workspace to say"):
        load(workspace)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nonsense", "Expected '='"),
        ('colour = "red"', "unknown key `colour`"),
        ("agent = 1", "`agent` must be a text"),
        ('[sandbox]\nnetwork = "yes"', "`sandbox.network` must be true or false"),
        ("[sandbox]\nreadable = [1]", "`sandbox.readable` must be a list of texts"),
        ("[sandbox]\nfast = true", "unknown key `sandbox.fast`"),
        ("workspaces = 1", "`workspaces` must be a table"),
    ],
)
def test_a_mistake_is_named_with_its_file(workspace: Path, text: str, said: str) -> None:
    config_file().write_text(text)
    with pytest.raises(ConfigError, match=said) as error:
        load(workspace)
    assert str(config_file()) in str(error.value)


def test_neither_links_nor_fifos_of_a_workspace_are_read(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.toml").write_text("secret")
    (workspace / ".codelab" / "config.toml").symlink_to(tmp_path / "outside.toml")
    assert load(workspace) == Config()
    (workspace / ".codelab" / "config.toml").unlink()
    os.mkfifo(workspace / ".codelab" / "config.toml")
    assert load(workspace) == Config()
