import { type Signal, signal } from '@preact/signals';

/** A signal that outlives the page, where the browser lets it. `read` makes a value of whatever was stored. */
export function stored<Value>(name: string, initial: Value, read: (value: unknown) => Value): Signal<Value> {
  const key = `codelab.${name}`;
  let first = initial;
  try {
    const text = localStorage.getItem(key);
    if (text !== null) first = read(JSON.parse(text));
  } catch {
    // Private windows may refuse storage; another version may have stored something else.
  }
  const made = signal(first);
  made.subscribe((value) => {
    try {
      localStorage.setItem(key, JSON.stringify(value));
    } catch {
      // As above.
    }
  });
  return made;
}
