import type { Key } from '../i18n/index.ts';
import type { Entry } from './entries.ts';
import { visibleLine } from './safe.ts';

/** What the agent does: a text of the page and its value. `key` tells one act from the next. */
export interface Act {
  key: string;
  text: Key;
  what: string;
}

const TEXTS: Record<string, Key> = {
  read: 'act.read',
  edit: 'act.edit',
  delete: 'act.delete',
  move: 'act.move',
  search: 'act.search',
  execute: 'act.execute',
};
/** What a line has room for. */
const MOST_CHARS = 60;

/** What the agent does now, as far as the frames tell: a call that runs, else a text that is being written. */
export function actOf(entries: readonly Entry[]): Act | undefined {
  for (const entry of entries.toReversed()) {
    if (entry.kind === 'end' || entry.kind === 'user') break;
    if (entry.kind === 'draft') {
      const { path, tool_name: tool = '' } = entry.draft.value;
      return { key: entry.key, text: 'act.edit', what: shortened(visibleLine(path ?? tool)) };
    }
    if (entry.kind !== 'call' || !['running', 'approved', 'elsewhere'].includes(entry.call.value.state)) continue;
    const { tool_name: tool, kind = '', paths = [], arguments: args = {} } = entry.call.value.frame;
    const said = args['command'] ?? args['query'] ?? args['glob'];
    const words = typeof said === 'string' ? said : '';
    const isList = kind === 'search' && !words && paths.length > 0;
    const what = kind === 'search' ? words || paths.join(', ') || tool : paths.join(', ') || words || tool;
    const text = isList ? 'act.list' : (Object.hasOwn(TEXTS, kind) && TEXTS[kind]) || 'act.other';
    return { key: entry.key, text, what: shortened(visibleLine(what)) };
  }
  const last = entries.at(-1);
  if (last?.kind === 'assistant' && !last.final.value) return { key: last.key, text: 'act.answer', what: '' };
  return undefined;
}

function shortened(text: string): string {
  return [...text].length > MOST_CHARS ? `${[...text].slice(0, MOST_CHARS).join('')}…` : text;
}
