import type { ToolCallFrame } from "@codelab/client";

/** Arguments of a call after the user has edited the text that it would give a file. */
export function editedArguments(call: ToolCallFrame, before: string | null, text: string): Record<string, unknown> {
  const args = call.arguments as Record<string, unknown>;
  if (call.tool_name === "write_file") return { ...args, content: text };
  return { ...args, edits: [replacement(before ?? "", text)] };
}

/**
 * One replacement that makes one text of another: of the lines that differ, with so many around them that they occur
 * once. `before` is not empty, and differs.
 */
export function replacement(before: string, after: string): { old: string; new: string } {
  const [old, fresh] = [linesOf(before), linesOf(after)];
  const most = Math.min(old.length, fresh.length);
  let start = 0;
  while (start < most && old[start] === fresh[start]) start++;
  let end = 0;
  while (end < most - start && old[old.length - 1 - end] === fresh[fresh.length - 1 - end]) end++;
  for (;;) {
    const wanted = old.slice(start, old.length - end).join("");
    if (occursOnce(before, wanted) || (start === 0 && end === 0)) {
      return { old: wanted, new: fresh.slice(start, fresh.length - end).join("") };
    }
    start = Math.max(0, start - 1);
    end = Math.max(0, end - 1);
  }
}

function linesOf(text: string): string[] {
  return text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
}

function occursOnce(text: string, part: string): boolean {
  return part !== "" && text.indexOf(part) === text.lastIndexOf(part);
}
