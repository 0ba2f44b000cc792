import { type CatalogueTools, type Tool, ToolError } from '@codelab/client';
import type { Change } from './changes.ts';
import { Expectations } from './expectations.ts';
import { type Dialogue, fileTools } from './file_tools.ts';
import type { Folder } from './folder.ts';
import { gitTool } from './git/tools.ts';

export interface Environment {
  /** The open folder, once the browser has opened it; undefined if there is none. */
  folder(): Promise<Folder | undefined>;
  dialogue: Dialogue;
  /** Tells that the agent has changed files; and what a call has changed, if that are texts. */
  changed(paths: readonly string[], made?: { callId: string; changes: readonly Change[]; folder: Folder }): void;
  /** What the model knows and the user has seen; without it, nothing yet. */
  expectations?: Expectations;
}

type Arguments = Record<string, unknown>;

/** The tools that a page executes. The others are answered truthfully. */
export function tools(environment: Environment): { supported: string[]; tools: CatalogueTools } {
  const { dialogue, changed, expectations = new Expectations() } = environment;
  const folder = async (): Promise<Folder> => {
    const found = await environment.folder();
    if (!found) throw new ToolError('EXECUTION_FAILED', 'No folder is open in the page: ask the user to open one under "Files"');
    return found;
  };
  const { tools: supported, alone } = fileTools({ folder, dialogue, changed, expectations });
  for (const name of ['git.diff', 'git.status', 'git.log']) supported[name] = async (args: Arguments) => gitTool(name, await folder(), args);
  for (const name of ['git.branch', 'git.commit']) supported[name] = (args: Arguments) => alone(async () => gitTool(name, await folder(), args));
  const refused: Record<string, Tool<any>> = {};
  for (const name of ['run_command', 'run_persistent', 'kill_process']) {
    refused[name] = () => {
      throw new ToolError('TOOL_NOT_FOUND', 'There is no shell in a web page: no command was run');
    };
  }
  return { supported: Object.keys(supported), tools: { ...supported, ...refused } as CatalogueTools };
}
