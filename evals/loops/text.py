"""A plain loop of text: one shell command an answer, in a block, until an answer has none."""

import re
import sys

from common import ENDED, MAX_STEPS, Options, run, say

_SYSTEM = """You solve a task in the current folder by shell commands. Say in a sentence what you will do next, then
give exactly one command in a block:

```bash
the command
```

You are told what it printed, and go on. Each command runs in a shell of its own, in the same folder. When the task is
done, or is only a question that you can answer, give your final answer to the user without a block."""
_BEGIN = re.compile(r"```(?:bash|sh|shell)\s*\n")
_BLOCK = re.compile(_BEGIN.pattern + r"(.*?)^[ \t]*```[ \t]*$", re.DOTALL | re.MULTILINE)


def main() -> int:
    """Returns the exit code."""
    options, task = Options(sys.argv[1:]), sys.stdin.read()
    messages = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": task}]
    options.note("user", text=task)
    for step in range(options.max_steps):
        text = str(options.ask(messages).get("content") or "")
        options.note("assistant", text=text)
        begin, block = _BEGIN.search(text), _BLOCK.search(text)
        if begin is None:
            options.note("end", reason="completed")
            say(text)
            return ENDED
        command = block[1] if block else text[begin.end() :]
        options.note("call", id=str(step), tool="run_command", arguments={"command": command})
        succeeded, output = run(command) if block else (False, "Not run: end the block by a line of only ```.")
        options.note("result", id=str(step), ok=succeeded, text=output)
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": output}]
    options.note("end", reason="max_steps")
    return MAX_STEPS


if __name__ == "__main__":
    sys.exit(main())
