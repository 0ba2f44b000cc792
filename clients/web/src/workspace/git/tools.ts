import { ToolError } from '@codelab/client';
import type { Folder } from '../folder.ts';
import { names } from '../paths.ts';

type Arguments = Record<string, any>;

/** One call of a git tool. What does it is loaded with the first call. */
export async function gitTool(tool: string, folder: Folder, args: Arguments): Promise<unknown> {
  const [{ Repository }, { filesOf }] = await Promise.all([import('./repository.ts'), import('./files.ts')]);
  const path = typeof args['path'] === 'string' ? names(args['path']).join('/') : '';
  try {
    const found = await Repository.open(filesOf(folder));
    switch (tool) {
      case 'git.diff':
        return await found.diff(path, args['staged'] === true);
      case 'git.status':
        return await found.status(path);
      case 'git.log':
        return await found.log(args['limit'] ?? 10, path);
      case 'git.branch':
        return await found.branch(args['action'], args['name'] ?? '');
      default:
        return await found.commit(args['message'], ((args['files'] ?? []) as string[]).map((file) => names(file).join('/') || '.'));
    }
  } catch (error) {
    if (error instanceof ToolError) throw error;
    throw new ToolError('GIT_ERROR', error instanceof Error ? error.message.slice(0, 2_000) : String(error));
  }
}
