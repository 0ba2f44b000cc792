import { EMPTY, reduce, type SessionEvent } from '@codelab/client';
import { expect, test } from 'vitest';
import { actOf } from '../src/conversation/act.ts';

const frame = (type: string, more: object) => ({ type, turn_id: 't', ...more }) as unknown as SessionEvent;
const call = (call_id: string, kind: string, more: object) =>
  frame('tool_call', { call_id, kind, tool_name: 'a_tool', requires_approval: false, ...more });

test('the newest call that runs is what the agent does, else the text that it writes', () => {
  let state = EMPTY;
  const take = (event: SessionEvent) => (state = reduce(state, event));
  const told = () => {
    const act = actOf(state);
    return act && `${act.text} ${act.what}`;
  };
  take(frame('user_message', { client_msg_id: 'm', content: 'go' }));
  expect(told()).toBeUndefined();
  take(frame('assistant_message', { message_id: 'a', token: 'I', is_final: false }));
  expect(told()).toBe('act.answer ');
  take(frame('assistant_message', { message_id: 'a', token: '.', is_final: true }));
  take(call('c1', 'edit', { paths: ['new\u202e.py'], arguments: {} }));
  expect(told()).toBe('act.edit new⟨U+202E⟩.py');
  take(call('c2', 'execute', { arguments: { command: 'pytest -q' } }));
  expect(told()).toBe('act.execute pytest -q');
  take(frame('call_update', { call_id: 'c2', state: 'completed' }));
  expect(told()).toBe('act.edit new⟨U+202E⟩.py');
  take(frame('call_update', { call_id: 'c1', state: 'completed' }));
  expect(told()).toBeUndefined();
  take(call('c4', 'search', { tool_name: 'list_files', paths: ['src'], arguments: { path: 'src' } }));
  expect(told()).toBe('act.list src');
  take(call('c5', 'search', { paths: ['src'], arguments: { path: 'src', query: 'main' } }));
  expect(told()).toBe('act.search main');
  take(call('c3', 'constructor', { arguments: { command: 'x'.repeat(500) } }));
  expect(told()).toBe(`act.other ${'x'.repeat(60)}…`);
  take(frame('tool_call_draft', { message_id: 'd', index: 0, tool_name: 'write_file', path: 'new.py', lines: 42, chars: 900 }));
  expect([told(), actOf(state)?.lines]).toEqual(['act.edit new.py', 42]);
  take(frame('turn_end', { reason: 'cancelled', usage: {} }));
  expect(told()).toBeUndefined();
  take(frame('subagent_update', { turn_id: 'u', call_id: 'k', agent: 'explore', task: 'Find x', state: 'running' }));
  expect(told()).toBe('act.subagent explore');
});
