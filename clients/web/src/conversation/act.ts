import type { ConversationState, Part } from '@codelab/client';
import type { Key } from '../i18n/index.ts';
import { visibleLine } from './safe.ts';

/** What the agent does: a text of the page and its value. `key` tells one act from the next. `lines`: how many it has written. */
export interface Act {
  key: string;
  text: Key;
  what: string;
  lines?: number;
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
export function actOf({ messages, turns }: Pick<ConversationState, 'messages' | 'turns'>): Act | undefined {
  const parts: Part[] = [];
  for (const message of messages.toReversed()) {
    if (message.role === 'user' || turns.some((turn) => turn.id === message.turnId && turn.end)) break;
    parts.push(...message.parts.toReversed());
  }
  for (const part of parts) {
    if (part.type === 'draft') {
      const { path, tool_name: tool = '', lines = 0 } = part.draft;
      return { key: part.id, text: 'act.edit', what: shortened(visibleLine(path ?? tool)), lines };
    }
    if (part.type !== 'call' || !['running', 'approved', 'elsewhere'].includes(part.state)) continue;
    const { tool_name: tool, kind = '', paths = [], arguments: args = {} } = part.call;
    const said = args['command'] ?? args['query'] ?? args['glob'];
    const words = typeof said === 'string' ? said : '';
    const isList = kind === 'search' && !words && paths.length > 0;
    const what = kind === 'search' ? words || paths.join(', ') || tool : paths.join(', ') || words || tool;
    const text = isList ? 'act.list' : (Object.hasOwn(TEXTS, kind) && TEXTS[kind]) || 'act.other';
    return { key: part.id, text, what: shortened(visibleLine(what)) };
  }
  const works = parts.find((part) => part.type === 'subagent' && part.state === 'running');
  if (works?.type === 'subagent') return { key: works.id, text: 'act.subagent', what: shortened(visibleLine(works.agent)) };
  const [last] = parts;
  if (last?.type === 'text' && !last.isFinal) return { key: last.id, text: 'act.answer', what: '' };
  return undefined;
}

function shortened(text: string): string {
  return [...text].length > MOST_CHARS ? `${[...text].slice(0, MOST_CHARS).join('')}…` : text;
}
