import type { HistoryMessage, SessionEvent } from '@codelab/client';
import { describe, expect, test } from 'vitest';
import { Conversation } from '../src/conversation/conversation.ts';
import { retryOf } from '../src/conversation/entries.ts';

const said = (turn_id: string, role: string, content: string, more: object = {}) =>
  ({ id: `${turn_id}-${content}`, message_id: `${turn_id}-${content}`, turn_id, role, content, ...more }) as unknown as HistoryMessage;
const call = (call_id: string, more: object = {}) => ({ call_id, tool_name: 'run', turn_id: 't2', ...more });
const frame = (type: string, more: object) => ({ type, turn_id: 't2', ...more }) as unknown as SessionEvent;
const shown = ({ entries }: Conversation) =>
  entries.value.map((entry) => {
    if (entry.kind === 'call') return `${entry.key} ${entry.call.value.state}`;
    if (entry.kind === 'user') return entry.text;
    return entry.kind === 'assistant' ? entry.text.value : entry.kind;
  });

const before = [said('t1', 'user', 'one'), said('t1', 'assistant', 'two')];
const sinceThen = [
  ...before,
  said('t2', 'user', 'three'),
  said('t2', 'assistant', 'four', { calls: [call('c1'), call('c2'), call('c3')] }),
  said('t2', 'tool', 'done', { call_id: 'c1' }),
];

describe('after the model has failed', () => {
  const failed = frame('error', { seq: 9, error_code: 'LLM_ERROR', message: 'no' });
  const end = frame('turn_end', { reason: 'error', usage: {} });
  const asked = (...frames: SessionEvent[]) => {
    const page = new Conversation();
    page.begin(before, 't2');
    page.take(frame('user_message', { client_msg_id: 'm', content: 'three' }));
    for (const one of frames) page.take(one);
    return retryOf(page.entries.value);
  };

  test('the same message is sent again, or the turn goes on if it had made calls', () => {
    expect(asked(failed, end)).toMatchObject({ text: 'three', attached: [] });
    expect(asked(frame('tool_call', call('c1')), failed, end)).toEqual({ text: '', attached: [] });
  });

  test('there is nothing to try again if it has not, or if another message has come since', () => {
    const said = frame('assistant_message', { message_id: 'a', token: 'x', is_final: true });
    const other = frame('user_message', { client_msg_id: 'o', content: 'four', turn_id: 't3' });
    expect(asked(said, end)).toBeUndefined();
    expect(asked(frame('error', { seq: 9, error_code: 'RATE_LIMITED', message: 'no' }), end)).toBeUndefined();
    expect(asked(failed, end, other)).toBeUndefined();
  });
});

test('a message that was refused for now can be sent again, from the time on that the server says', () => {
  const refused = (code: string, at?: number) => {
    const page = new Conversation();
    page.said('m', 'hello', []);
    page.refused('m', 'no', code, at);
    return retryOf(page.entries.value);
  };
  expect(refused('RATE_LIMITED', 5000)).toEqual({ text: 'hello', attached: [], at: 5000 });
  expect(refused('BUSY')).toEqual({ text: 'hello', attached: [] });
  expect(refused('CONTEXT_TOO_LARGE')).toBeUndefined();
});

describe('frames that are missing', () => {
  test('are told by the history, and the turn that was running goes on', () => {
    const page = new Conversation();
    page.begin([...before, said('t2', 'user', 'three')], 't2');
    expect(shown(page)).toEqual(['one', 'two']);
    page.take(frame('user_message', { client_msg_id: 't2-three', content: 'three' }));
    page.take(frame('tool_call', { ...call('c2'), requires_approval: true }));
    page.beginAgain(sinceThen, 't2');
    expect(shown(page)).toEqual(['one', 'two', 'three', 'four', 'c1 completed', 'c2 asking', 'c3 elsewhere']);
    page.take(frame('tool_call', { ...call('c3'), requires_approval: true }));
    page.take(frame('call_update', { call_id: 'c2', state: 'rejected' }));
    page.take(frame('assistant_message', { message_id: 'm', token: 'five', is_final: true }));
    expect(shown(page).slice(4)).toEqual(['c1 completed', 'c2 rejected', 'c3 asking', 'five']);
  });

  test('of a turn that has ended are told by the history alone', () => {
    const page = new Conversation();
    page.begin(before, 't2');
    page.take(frame('tool_call', { ...call('c2'), requires_approval: true }));
    page.said('new', 'on its way', []);
    page.beginAgain(sinceThen, undefined);
    expect(shown(page)).toEqual(['one', 'two', 'three', 'four', 'c1 completed', 'c2 completed', 'c3 completed', 'on its way']);
    page.take(frame('assistant_message', { message_id: 'm', token: 'late', is_final: true }));
    expect(shown(page)).not.toContain('late');
  });

  test('may be told twice by a history that is newer than the frames', () => {
    const page = new Conversation();
    page.begin(before, 't2');
    page.take(frame('user_message', { client_msg_id: 't2-three', content: 'three' }));
    page.take(frame('assistant_message', { message_id: 't2-four', token: 'fo', is_final: false }));
    page.beginAgain(sinceThen, 't2');
    page.take(frame('assistant_message', { message_id: 't2-four', token: 'ur', is_final: true }));
    expect(shown(page).slice(3, 4)).toEqual(['four']);
  });

  test('do not hide a turn that has begun since the server was asked which one runs', () => {
    const page = new Conversation();
    page.said('t2-three', 'three', []);
    page.take(frame('user_message', { client_msg_id: 't2-three', content: 'three' }));
    page.take(frame('assistant_message', { message_id: 'm', token: 'Half ', is_final: false }));
    page.beginAgain(before, undefined);
    page.take(frame('assistant_message', { message_id: 'm', token: 'whole', is_final: true }));
    expect(shown(page)).toEqual(['one', 'two', 'three', 'Half whole']);
  });
});

test('a message that once waited stays where the history has it', () => {
  const page = new Conversation();
  page.begin([...before, said('t2', 'user', 'three'), said('t2', 'assistant', 'four')], undefined);
  const id = 't2-three';
  page.take(frame('queued', { client_msg_id: id, position: 1, preview: 'three', turn_id: 't1' }));
  expect(page.queue.value).toEqual([]);
  page.take(frame('user_message', { client_msg_id: id, content: 'three' }));
  expect(shown(page)).toEqual(['one', 'two', 'three', 'four']);
});

describe('a call that is being written', () => {
  const draft = (index: number, more: object = {}) =>
    frame('tool_call_draft', { message_id: 'm', index, tool_name: 'write_file', path: 'a.py', lines: 1, tail: 'x', ...more });
  const after = (...frames: SessionEvent[]) => {
    const page = new Conversation();
    for (const one of frames) page.take(one);
    return shown(page);
  };

  test('grows in one card, and becomes the call', () => {
    const page = new Conversation();
    page.take(draft(0));
    page.take(draft(0, { lines: 42 }));
    expect(page.entries.value).toMatchObject([{ kind: 'draft', draft: { value: { lines: 42 } } }]);
    expect(after(draft(0), draft(1), draft(1))).toEqual(['draft', 'draft']);
    expect(after(draft(0), draft(1), frame('tool_call', call('c1', { requires_approval: true })))).toEqual(['c1 asking']);
    expect(after(draft(0), frame('tool_call', call('c1', { turn_id: 'other', requires_approval: true })))).toEqual(['draft', 'c1 asking']);
  });

  test('is gone when it is withdrawn, replaced, late, or its answer is void', () => {
    expect(after(draft(0), draft(1), draft(0))).toEqual(['draft']);
    expect(after(draft(0), draft(1), draft(0, { withdrawn: true }))).toEqual([]);
    expect(after(draft(0), draft(0, { withdrawn: true }), draft(0))).toEqual(['draft']);
    expect(after(draft(0), frame('message_discarded', { message_id: 'm' }), draft(0))).toEqual([]);
    expect(after(draft(0), frame('agent_status', { status: 'idle' }), draft(0))).toEqual([]);
    expect(after(draft(0), frame('turn_end', { reason: 'error', usage: {} }), draft(0))).toEqual(['end']);
    expect(after(draft(0), draft(0, { message_id: 'n' }))).toEqual(['draft']);
    expect(after(draft(0), { type: 'offline', why: '', retryInMs: 1 })).toEqual([]);
    expect(after(draft(0), frame('agent_status', { status: 'thinking' }))).toEqual(['draft']);
  });
});
