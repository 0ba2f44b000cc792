"""git.commit commits as the user's own git would, or not at all: identity, ignores, signatures, filters, hooks."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from codelab_client.execution import ToolOutcome
from codelab_client.sandbox import Unsandboxed, choose
from codelab_client.tools.executor import Executor
from codelab_client.tools.workspace import DiskWorkspace

from tests.client.calls import Answers, call, execute, git, result, snapshot
from tests.sampling import sampled

SECRET = "the user's private key"


YES = "Run them, then commit"


class User:
    """A user with a home, git settings in it, and a repository."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.top = self.home / "work/code"
        self.top.mkdir(parents=True)
        (self.home / ".ssh").mkdir()
        (self.home / ".ssh/id").write_text(SECRET)
        git(self.top, "init", "--quiet", "--initial-branch=main")
        (self.top / "a").write_text("1\n")
        git(self.top, "add", "a")
        git(self.top, "commit", "--quiet", "-m", "first")
        self.settings("[user]\n\tname = Ann\n\temail = ann@home.example\n")

    def settings(self, text: str, name: str = ".gitconfig") -> None:
        file = self.home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def executor(self, dialogue: Answers | None = None, **environment: str) -> Executor:
        own = {"PATH": os.environ["PATH"], "HOME": str(self.home), **environment}
        workspace = DiskWorkspace(self.top)
        return Executor(workspace, choose(self.home).sandbox, dialogue=dialogue, environment=own)

    def commit(self, executor: Executor | None = None, content: str = "2\n", **more: Any) -> ToolOutcome:
        (self.top / "a").write_text(content)
        given = {"message": "second", "files": ["a"], **more}
        return execute(executor or self.executor(), "git.commit", **given)

    def refused(self, executor: Executor | None = None, **more: Any) -> str:
        """Why a commit is refused, which leaves everything as it was."""
        head, staged = git(self.top, "rev-parse", "HEAD"), git(self.top, "diff", "--cached")
        outcome = self.commit(executor, **more)
        assert outcome.error is not None, "it was committed"
        assert outcome.error.code == "GIT_ERROR"
        assert (git(self.top, "rev-parse", "HEAD"), git(self.top, "diff", "--cached")) == (head, staged)
        assert not list((self.top / ".git").glob("codelab-*"))
        return outcome.error.message

    def last(self, form: str = "%an %ae %cn") -> str:
        return git(self.top, "log", "-1", f"--format={form}").strip()

    def hook(self, name: str, script: str, folder: str = ".git/hooks") -> None:
        file = self.top / folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path.resolve())


# -- who commits ------------------------------------------------------------------------------------------------------

WORK = "[user]\n\tname = Ann at work\n\temail = ann@work.example\n"
PRIVATE = "[user]\n\tname = Ann\n\temail = ann@home.example\n"


@pytest.mark.parametrize(
    "settings",
    sampled(
        [
            f"{PRIVATE}[include]\n\tpath = work.inc\n",
            f'{PRIVATE}[includeIf "gitdir:~/work/"]\n\tpath = ~/work.inc\n',
            f'{PRIVATE}[includeIf "onbranch:main"]\n\tpath = work.inc\n',
            f'{PRIVATE}[includeIf "hasconfig:remote.*.url:git@work.example:**"]\n\tpath = work.inc\n',
        ]
    ),
    ids=["include", "gitdir", "onbranch", "hasconfig"],
)
def test_a_commit_for_work_has_the_identity_for_work(user: User, settings: str) -> None:
    user.settings(WORK, "work.inc")
    user.settings(settings)
    git(user.top, "remote", "add", "origin", "git@work.example:code.git")
    assert user.commit().error is None
    assert user.last() == "Ann at work ann@work.example Ann at work"


def test_the_repository_and_the_environment_come_first(user: User) -> None:
    git(user.top, "config", "user.name", "Here")
    assert user.commit().error is None
    assert user.last() == "Here ann@home.example Here"
    assert user.commit(user.executor(GIT_AUTHOR_NAME="Eve"), content="3\n").error is None
    assert user.last() == "Eve ann@home.example Here"


def test_a_file_that_the_repository_includes_says_who_commits(user: User) -> None:
    user.settings(WORK, "project.inc")
    git(user.top, "config", "include.path", "~/project.inc")
    assert user.commit().error is None
    assert user.last() == "Ann at work ann@work.example Ann at work"


@pytest.mark.parametrize("settings", sampled(["", "[user]\n\tname = Ann\n", "[user]\n\temail = a@b.example\n"]))
def test_nobody_commits_as_root(user: User, settings: str) -> None:
    user.settings(settings)
    assert "does not know who commits" in user.refused()


def test_settings_that_cannot_be_read_are_said(user: User) -> None:
    user.settings("[user\n")
    assert "git settings cannot be read" in user.refused()


# -- what is committed ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "file"),
    sampled(
        [
            (f"{PRIVATE}[core]\n\texcludesFile = ~/ignored\n", "ignored"),
            (PRIVATE, ".config/git/ignore"),
            (f"{PRIVATE}[include]\n\tpath = more.inc\n", "ignored"),
        ]
    ),
    ids=["excludesFile", "default", "included"],
)
def test_what_the_user_ignores_everywhere_is_not_committed_nor_seen(user: User, settings: str, file: str) -> None:
    user.settings(settings)
    user.settings("[core]\n\texcludesFile = ~/ignored\n", "more.inc")
    user.settings(".env\n", file)
    (user.top / "sub").mkdir()
    (user.top / "sub/.env").write_text("TOKEN=secret\n")
    (user.top / "sub/code").write_text("secret needle\n")
    executor = user.executor()
    assert [entry["path"] for entry in result(executor, "git.status")["files"]] == ["sub/code"]
    listed = result(executor, "list_files", path=".", recursive=True)["files"]
    assert "sub/.env" not in [entry["name"] for entry in listed]
    assert [match["path"] for match in result(executor, "search_in_project", query="secret")["matches"]] == ["sub/code"]
    assert user.commit(executor, files=["a", "sub"]).error is None
    assert git(user.top, "show", "--name-only", "--format=").split() == ["a", "sub/code"]
    outcome = user.commit(executor, content="3\n", files=["sub/.env"])
    assert outcome.error is not None
    assert "git ignores it" in outcome.error.message


def test_a_list_of_ignored_files_that_is_not_read_is_said(user: User) -> None:
    git(user.top, "config", "core.excludesFile", str(user.home / ".ssh/id"))
    assert "core.excludesFile" in user.refused()


def test_line_ends_are_converted_as_the_user_wants(user: User) -> None:
    user.settings(f"{PRIVATE}[core]\n\tautocrlf = input\n")
    assert user.commit(content="x\r\n").error is None
    assert git(user.top, "show", "HEAD:a") == "x\n"


def test_a_file_that_git_lfs_keeps_elsewhere_is_not_committed_as_it_is(user: User) -> None:
    user.settings(f'{PRIVATE}[filter "lfs"]\n\tclean = git-lfs clean -- %f\n\tsmudge = git-lfs smudge -- %f\n')
    (user.top / ".gitattributes").write_text("*.bin filter=lfs\n")
    (user.top / "x.bin").write_text("large\n")
    assert "the filter lfs" in user.refused(files=["a", "x.bin"])
    git(user.top, "branch", "other")
    outcome = execute(user.executor(), "git.branch", action="switch", name="other")
    assert outcome.error is not None
    assert "Filters" in outcome.error.message
    assert user.commit(files=["a"]).error is None


@pytest.mark.parametrize("value", sampled(["true", "yes", "1"]))
def test_an_unsigned_commit_is_not_made_for_who_signs(user: User, value: str) -> None:
    user.settings(f"{PRIVATE}[commit]\n\tgpgSign = {value}\n")
    assert "cannot sign" in user.refused()
    git(user.top, "config", "commit.gpgSign", "false")
    assert user.commit().error is None


# -- hooks ------------------------------------------------------------------------------------------------------------

HOOKS = ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit")


@pytest.mark.parametrize("name", [*HOOKS, "reference-transaction"])
def test_a_hook_is_not_passed_by_when_nobody_can_be_asked(user: User, name: str) -> None:
    user.hook(name, "exit 0")
    assert f".git/hooks/{name}" in user.refused()


@pytest.mark.parametrize("name", sampled(HOOKS))
def test_a_hook_runs_only_if_the_user_says_so(user: User, name: str) -> None:
    user.hook(name, "touch ran")
    refuses = Answers("Do not commit")
    assert "did not allow" in user.refused(user.executor(refuses))
    assert not (user.top / "ran").exists()
    agrees = Answers(YES)
    assert user.commit(user.executor(agrees)).error is None
    assert (user.top / "ran").exists()
    assert f".git/hooks/{name}" in agrees.questions[0]


def test_a_hook_that_cannot_run_or_does_not_is_no_hook(user: User) -> None:
    user.hook("pre-commit.sample", "exit 1")
    user.hook("pre-commit", "exit 1")
    (user.top / ".git/hooks/pre-commit").chmod(0o644)
    user.hook("post-checkout", "exit 1")
    assert user.commit().error is None


@pytest.mark.parametrize("scope", ["repository", "user"])
def test_hooks_in_another_folder_are_found(user: User, scope: str) -> None:
    if scope == "repository":
        user.hook("pre-commit", "echo not today; exit 1", ".husky/_")
        git(user.top, "config", "core.hooksPath", ".husky/_")
    else:
        user.hook("pre-commit", "echo not today; exit 1", "../../hooks")
        user.settings(f"{PRIVATE}[core]\n\thooksPath = ~/hooks\n")
    answers = Answers(YES)
    said = user.refused(user.executor(answers))
    assert "failed.\nnot today" in said
    assert (".husky/_/pre-commit" if scope == "repository" else str(user.home / "hooks/pre-commit")) in said


def test_hooks_see_the_commit_and_change_its_message(user: User) -> None:
    (user.top / "b").write_text("not in it\n")
    git(user.top, "add", "b")
    user.hook("pre-commit", "git diff --cached --name-only > seen")
    user.hook("prepare-commit-msg", 'echo "$2" > kind')
    user.hook("commit-msg", 'echo "Change-Id: I1" >> "$1"')
    answers = Answers(YES)
    executor = user.executor(answers)
    assert user.commit(executor).error is None
    assert ((user.top / "seen").read_text(), (user.top / "kind").read_text()) == ("a\n", "message\n")
    assert user.last("%B") == "second\nChange-Id: I1"
    assert git(user.top, "diff", "--cached", "--name-only") == "b\n"
    assert user.commit(executor, content="3\n").error is None
    assert len(answers.questions) == 1, "the same hooks are asked about once"
    user.hook("pre-commit", "true")
    assert user.commit(executor, content="4\n").error is None
    assert len(answers.questions) == 2


def test_a_hook_stays_in_the_sandbox(user: User) -> None:
    """Whoever writes to the repository may have written it, and the user has allowed its name only."""
    user.hook(
        "pre-commit",
        f"cat {user.home}/.ssh/id; echo x > {user.home}/.profile; echo evil > .git/hooks/post-commit\n"
        "echo '[core]' >> .git/config; git config core.fsmonitor evil; git add b; exit 1",
    )
    (user.top / "b").write_text("")
    before = snapshot(user.home, user.top), snapshot(user.top / ".git/hooks"), (user.top / ".git/config").read_bytes()
    said = user.refused(user.executor(Answers(YES)))
    assert SECRET not in said
    after = snapshot(user.home, user.top), snapshot(user.top / ".git/hooks"), (user.top / ".git/config").read_bytes()
    assert after == before


def test_no_hook_runs_without_a_sandbox(user: User) -> None:
    user.hook("pre-commit", "touch ran")
    environment = {"PATH": os.environ["PATH"], "HOME": str(user.home)}
    bare = Executor(DiskWorkspace(user.top), Unsandboxed(), dialogue=Answers(YES), environment=environment)
    assert "only in a sandbox" in user.refused(bare)
    assert not (user.top / "ran").exists()


def test_a_switch_says_which_hook_did_not_run(user: User) -> None:
    git(user.top, "branch", "other")
    user.hook("post-checkout", "touch ran")
    said = result(user.executor(), "git.branch", action="switch", name="other")
    assert said["message"] == "The hook .git/hooks/post-checkout was not run."


def test_files_are_written_while_the_user_is_asked(user: User) -> None:
    class Writes(Answers):
        async def choose(self, message: str, actions: Sequence[str]) -> str | None:
            outcome = await asyncio.wait_for(call(executor, "write_file", path="b", content="x"), 10)
            assert outcome.error is None
            return await super().choose(message, actions)

    user.hook("pre-commit", "true")
    executor = user.executor(Writes(YES))
    assert user.commit(executor).error is None
    assert (user.top / "b").read_text() == "x"
