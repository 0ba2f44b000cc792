"""What both loops need: a request that is tried again, the trace, and cut output. Only Python's own library."""

import http.client
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

#: Exit codes: the model ended the task, the step limit was reached, the model's server failed.
ENDED, MAX_STEPS, FAILED = 0, 3, 4
MOST_OUTPUT = 10_000
_TRIES = 5
_COMMAND_S = 60


class Options:
    """The words of the command line: --base-url, --model, --max-steps and --trace, each with its value."""

    def __init__(self, words: list[str]) -> None:
        given = dict(zip(words[::2], words[1::2], strict=True))
        self.base_url, self.model = given["--base-url"].rstrip("/"), given["--model"]
        self.max_steps, self.trace = int(given["--max-steps"]), Path(given["--trace"])

    def note(self, kind: str, **event: Any) -> None:
        """Add an event to the trace. What is no Unicode, as of a file's name, is written as an escape of JSON."""
        with self.trace.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(json.dumps({"kind": kind, **event}, ensure_ascii=False) + "\n")

    def ask(self, messages: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        """The model's next message. Ends the program if its server fails five times, or says that it will not do it."""
        asked = {"model": self.model, "messages": messages, **more}
        body = json.dumps(asked, ensure_ascii=False).encode("utf-8", "replace")
        headers = {
            "content-type": "application/json",
            "authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', '')}",
        }
        for attempt in range(_TRIES):
            if attempt:
                time.sleep(float(os.environ.get("WAIT_S", "1")) * 2 ** (attempt - 1))
            try:
                request = urllib.request.Request(f"{self.base_url}/chat/completions", body, headers)
                with urllib.request.urlopen(request) as answer:
                    message = json.load(answer)["choices"][0]["message"]
                    return dict(message)
            except urllib.error.HTTPError as error:
                problem = f"{error.code} {error.read().decode('utf-8', 'replace')[:500]}"
                if error.code != 429 and error.code < 500:
                    break
            except (OSError, http.client.HTTPException, ValueError, KeyError, IndexError, TypeError) as error:
                problem = repr(error)
        self.note("end", reason="error", message=problem)
        sys.stderr.write(problem + "\n")
        sys.exit(FAILED)


def cut(text: str) -> str:
    """`text` with its middle left out where it is long."""
    half = MOST_OUTPUT // 2
    return (
        text if len(text) <= MOST_OUTPUT else f"{text[:half]}\n… {len(text) - MOST_OUTPUT} characters …\n{text[-half:]}"
    )


def say(text: str) -> None:
    """Print the final answer."""
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))


def run(command: str) -> tuple[bool, str]:
    """Whether a shell command ran to its end, with whatever exit code, and what the model reads of it.

    All it started ends at its time limit.
    """
    limit = float(os.environ.get("COMMAND_S", _COMMAND_S))
    try:
        process = subprocess.Popen(
            ["/bin/bash", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:  # too long, or with a NUL
        return False, f"The command cannot be run: {error}"
    with process:
        try:
            output, _ = process.communicate(timeout=limit)
            how = f"exit code {process.returncode}"
        except subprocess.TimeoutExpired as late:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            output, how = late.output or b"", f"The command was ended after {limit:g} s. Until then:"
    return how.startswith("exit"), f"{how}\n{cut(output.decode('utf-8', 'replace'))}"
