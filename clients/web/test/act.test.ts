import type { SessionEvent } from '@codelab/client';
import { expect, test } from 'vitest';
import { actOf } from '../src/conversation/act.ts';
import { Conversation } from '../src/conversation/conversation.ts';

const frame = (type: string, more: object) => ({ type, turn_id: 't', ...more }) as unknown as SessionEvent;
const call = (call_id: string, kind: string, more: object) =>
  frame('tool_call', { call_id, kind, tool_name: 'a_tool', requires_approval: false, ...more });

test('the newest call that runs is what the agent does, else the text that it writes', () => {
  const page = new Conversation();
  const told = () => {
    const act = actOf(page.entries.value);
    return act && `${act.text} ${act.what}`;
  };
  page.take(frame('user_message', { client_msg_id: 'm', content: 'go' }));
  expect(told()).toBeUndefined();
  page.take(frame('assistant_message', { message_id: 'a', token: 'I', is_final: false }));
  expect(told()).toBe('act.answer ');
  page.take(frame('assistant_message', { message_id: 'a', token: '.', is_final: true }));
  page.take(call('c1', 'edit', { paths: ['new\u202e.py'], arguments: {} }));
  expect(told()).toBe('act.edit new⟨U+202E⟩.py');
  page.take(call('c2', 'execute', { arguments: { command: 'pytest -q' } }));
  expect(told()).toBe('act.execute pytest -q');
  page.take(frame('call_update', { call_id: 'c2', state: 'completed' }));
  expect(told()).toBe('act.edit new⟨U+202E⟩.py');
  page.take(frame('call_update', { call_id: 'c1', state: 'completed' }));
  expect(told()).toBeUndefined();
  page.take(call('c4', 'search', { tool_name: 'list_files', paths: ['src'], arguments: { path: 'src' } }));
  expect(told()).toBe('act.list src');
  page.take(call('c5', 'search', { paths: ['src'], arguments: { path: 'src', query: 'main' } }));
  expect(told()).toBe('act.search main');
  page.take(call('c3', 'constructor', { arguments: { command: 'x'.repeat(500) } }));
  expect(told()).toBe(`act.other ${'x'.repeat(60)}…`);
  page.take(frame('turn_end', { reason: 'cancelled', usage: {} }));
  expect(told()).toBeUndefined();
});
