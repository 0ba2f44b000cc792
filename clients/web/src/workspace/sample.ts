/** The project that a newcomer works on. */
export const SAMPLE: Record<string, string> = {
  'README.md': `# Greeter

A small project to try the agent on. Ask it, for example:

- What does main.py do?
- Replace “Hello” with “Good morning” in main.py
- Create greet_test.py
- Make a plan
`,
  'main.py': `from greeter.names import NAMES
from greeter.text import greeting


def main() -> None:
    print("Hello from the sample project")
    for name in NAMES:
        print(greeting(name))


if __name__ == "__main__":
    main()
`,
  'greeter/__init__.py': '',
  'greeter/names.py': `NAMES = [
    "Ada",
    "Grace",
    "Linus",
    "Мария",
]
`,
  'greeter/text.py': `def greeting(name: str) -> str:
    """The words for one person."""
    return f"Hello, {name}!"


def farewell(name: str) -> str:
    return f"Goodbye, {name}!"
`,
  'web/index.html': `<!doctype html>
<title>Greeter</title>
<h1 id="greeting">Hello!</h1>
<script src="greet.js"></script>
`,
  'web/greet.js': `const names = ['Ada', 'Grace', 'Linus'];

export function greet(name) {
  return \`Hello, \${name}!\`;
}

document.querySelector('#greeting').textContent = names.map(greet).join(' ');
`,
};
