import { expect, test } from 'vitest';
import type { Row } from '../src/inspector/log.ts';
import { turnsOf } from '../src/inspector/turns.ts';

test('a turn has the name of its message and what it has waited for, also while it runs', () => {
  const rows: Row[] = [];
  const take = (at: number, frame: Record<string, unknown>, kind: Row['kind'] = 'in') =>
    rows.push({ kind, at, frame, n: rows.length, seq: rows.length, type: String(frame['type']), text: '', bytes: 0, connection: 1 } as Row);
  const status = (at: number, value: string) => take(at, { type: 'agent_status', status: value });
  take(100, { type: 'user_message', content: 'fix it' }, 'out');
  take(110, { type: 'user_message', content: 'fix it', turn_id: 't1' });
  status(120, 'thinking');
  take(150, { type: 'assistant_message', turn_id: 't1' });
  status(170, 'waiting_approval');
  take(200, { type: 'tool_call', turn_id: 't1' });
  const kinds = () => turnsOf(rows).map(({ message, spans }) => [message, ...spans.map(({ kind, start, end }) => `${kind} ${end - start}`)]);
  expect(kinds()).toEqual([['fix it', 'queue 20', 'first 30', 'model 20', 'approval 30']]);
  status(300, 'thinking');
  take(310, { type: 'turn_end', turn_id: 't1' });
  expect(kinds()).toEqual([['fix it', 'queue 20', 'first 30', 'model 20', 'approval 130', 'first 10']]);
});
