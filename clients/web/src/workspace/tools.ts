import { type CatalogueTools, type Tool, ToolError } from '@codelab/client';
import { changesOf, make } from './changes.ts';
import type { Dialogue } from './dialogue.ts';
import type { Folder } from './folder.ts';
import { gitTool } from './git/tools.ts';
import { matches, names } from './paths.ts';
import { chosen, parsed } from './patches.ts';
import { search } from './search.ts';

export interface Environment {
  /** The open folder, once the browser has opened it; undefined if there is none. */
  folder(): Promise<Folder | undefined>;
  dialogue: Dialogue;
  /** Tells that the agent has changed files. */
  changed(paths: readonly string[]): void;
}

type Arguments = Record<string, unknown>;

/** The tools that a page executes. The others are answered truthfully. */
export function tools(environment: Environment): { supported: string[]; tools: CatalogueTools } {
  const { dialogue, changed } = environment;
  let changing: Promise<unknown> = Promise.resolve();

  const folder = async (): Promise<Folder> => {
    const found = await environment.folder();
    if (!found) throw new ToolError('EXECUTION_FAILED', 'No folder is open in the page: ask the user to open one under "Files"');
    return found;
  };
  /** Changes one after the other: what a call has read must not change before it writes. */
  const alone = <Value>(action: () => Promise<Value>): Promise<Value> => {
    const done = changing.then(action, action);
    changing = done.catch(() => {});
    return done;
  };
  const changes = (tool: string) => (args: Arguments) =>
    alone(async () => {
      const open = await folder();
      const found = await changesOf(open, tool, args);
      await make(open, found);
      changed(found.map((change) => change.path));
      return found;
    });
  const [write, edit, patch] = [changes('write_file'), changes('edit_file'), changes('apply_patch')];

  const supported: Record<string, Tool<any>> = {
    read_file: async (args: { path: string; offset?: number; limit?: number }) => readFile(await folder(), args),
    write_file: async (args: Arguments) => {
      const [change] = await write(args);
      return { success: true, bytes_written: new TextEncoder().encode(change?.after ?? '').length };
    },
    edit_file: async (args: Arguments) => {
      const [change] = await edit(args);
      return { success: true, message: change && change.before === change.after ? 'Nothing was different' : 'Edited' };
    },
    apply_patch: async (args: Arguments) => {
      const found = await patch(args);
      return { success: true, files_modified: found.map((change) => change.path) };
    },
    list_files: async (args: { path: string; recursive?: boolean; pattern?: string }) => listFiles(await folder(), args),
    find_files: async (args: { glob: string; path?: string; max_results?: number }) => findFiles(await folder(), args),
    search_in_project: async (args: SearchArguments, { signal }) => {
      // A pattern of the model could keep the page's only thread busy for ever.
      if (args.regex) throw new ToolError('INVALID_ARGUMENTS', 'A page searches for texts only: search again without regex');
      const { query, path, case_sensitive: caseSensitive, glob, max_results: most, context } = args;
      return search(await folder(), { query, path, caseSensitive, glob, most, context }, signal);
    },
    create_directory: (args: { path: string }) =>
      alone(async () => {
        await (await folder()).createDirectory(args.path);
        changed([args.path]);
        return { success: true };
      }),
    delete_file: (args: { path: string }) =>
      alone(async () => {
        await (await folder()).remove(args.path);
        changed([args.path]);
        return { success: true };
      }),
    move_file: (args: { from: string; to: string }) =>
      alone(async () => {
        await (await folder()).move(args.from, args.to);
        changed([args.from, args.to]);
        return { success: true };
      }),
    apply_patch_review: async (args: { diff: string; message?: string }, { signal }) => {
      const files = parsed(args.diff);
      const total = files.reduce((sum, file) => sum + file.hunks.length, 0);
      const selected = await dialogue.review(args.message ?? '', files, signal);
      if (!selected?.size) return { action: 'cancel', chunks_selected: [], chunks_total: total };
      const numbers = [...selected].sort((one, other) => one - other);
      return { action: 'apply', filtered_diff: chosen(files, selected), chunks_selected: numbers, chunks_total: total };
    },
    prompt_user: async (args: { message: string; actions: string[] }, { signal }) => {
      const action = await dialogue.choose(args.message, args.actions, signal);
      if (action === undefined) throw new ToolError('EXECUTION_FAILED', 'The user closed the question');
      return { action };
    },
  };
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

interface SearchArguments {
  query: string;
  path?: string;
  case_sensitive?: boolean;
  regex?: boolean;
  glob?: string;
  context?: number;
  max_results?: number;
}

async function findFiles(folder: Folder, { glob, path = '.', max_results: most = 200 }: { glob: string; path?: string; max_results?: number }) {
  const below = names(path).join('/');
  const found: string[] = [];
  for await (const item of folder.walk(path)) {
    if (item.type === 'file' && matches(glob, below ? item.path.slice(below.length + 1) : item.path)) found.push(item.path);
  }
  return { files: found.sort().slice(0, most), truncated: found.length > most };
}

async function readFile(folder: Folder, { path, offset, limit }: { path: string; offset?: number; limit?: number }) {
  const { content, size, modified } = await folder.read(path);
  if (offset == null && limit == null) return { content, encoding: 'utf-8', size, modified };
  const lines = content.match(/[^\n]*\n|[^\n]+$/g) ?? [];
  const start = Math.max((offset ?? 1) - 1, 0);
  const part = lines.slice(start, limit == null ? undefined : start + limit);
  return { content: part.join(''), encoding: 'utf-8', size, modified, first_line: start + 1, total_lines: lines.length };
}

async function listFiles(folder: Folder, { path, recursive, pattern }: { path: string; recursive?: boolean; pattern?: string }) {
  const below = names(path).join('/');
  const found: { name: string; type: 'file' | 'directory' }[] = [];
  const take = (item: { path: string; type: 'file' | 'directory' }) => {
    const name = below ? item.path.slice(below.length + 1) : item.path;
    if (!pattern || matches(pattern, name)) found.push({ name, type: item.type });
  };
  if (recursive) for await (const item of folder.walk(path)) take(item);
  else for (const item of await folder.list(path)) take(item);
  return { files: found };
}
