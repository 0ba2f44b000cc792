import type { Row } from './log.ts';

export interface Span {
  kind: 'queue' | 'first' | 'model' | 'tool' | 'approval';
  start: number;
  end: number;
}

export interface TurnLine {
  id: string;
  /** The beginning of the message that began it, if the frames have it. */
  message: string;
  start: number;
  end: number;
  spans: Span[];
}

const MESSAGE_CHARS = 200;

/** When a frame happened: by the server's clock where the frame says so, else when it came. */
function timeOf(row: Row): number {
  const at = row.frame?.['at'];
  return typeof at === 'number' && row.kind === 'in' ? at : row.at;
}

/**
 * The turns as spans: in the queue, until the first token, while the model writes, while a tool runs, while a human
 * decides. Rows are frames in time order; repeats tell nothing new. The last turn may be running.
 */
export function turnsOf(rows: readonly Row[]): TurnLine[] {
  const turns: TurnLine[] = [];
  let asked: number | undefined;
  let kind: Span['kind'] | undefined;
  let since = 0;
  let spans: Span[] = [];
  let id = '';
  let begun = 0;
  const messages = new Map<string, string>();
  const turnTo = (next: Span['kind'] | undefined, at: number) => {
    if (kind && at >= since && kind !== next) spans.push({ kind, start: since, end: at });
    if (kind !== next) since = at;
    kind = next;
  };
  for (const row of rows) {
    const { frame } = row;
    if (!frame || row.fate === 'repeat') continue;
    const at = timeOf(row);
    if (row.kind === 'out') {
      if (frame['type'] === 'user_message' && asked === undefined) asked = at;
      continue;
    }
    if (row.kind !== 'in' || row.seq === undefined) continue;
    if (typeof frame['turn_id'] === 'string') id = frame['turn_id'];
    if (frame['type'] === 'user_message' && typeof frame['content'] === 'string') messages.set(id, frame['content'].slice(0, MESSAGE_CHARS));
    switch (frame['type']) {
      case 'agent_status':
        if (frame['status'] === 'thinking') {
          if (!kind) {
            begun = asked ?? at;
            spans = [];
            since = begun;
            if (at > begun) kind = 'queue';
            asked = undefined;
          }
          turnTo('first', at);
        } else if (frame['status'] === 'executing_tool') turnTo('tool', at);
        else if (frame['status'] === 'waiting_approval') turnTo('approval', at);
        break;
      case 'assistant_message':
        if (kind === 'first') turnTo('model', at);
        break;
      case 'turn_end':
        if (kind) {
          turnTo(undefined, at);
          turns.push({ id, message: messages.get(id) ?? '', start: begun, end: at, spans });
        }
        break;
    }
  }
  if (kind) {
    const now = Math.max(since, timeOf(rows.at(-1)!));
    turns.push({ id, message: messages.get(id) ?? '', start: begun, end: now, spans: [...spans, { kind, start: since, end: now }] });
  }
  return turns;
}
