import { type Action, EMPTY, type HistoryMessage, reduce, type SessionEvent } from '@codelab/client';
import { describe, expect, test } from 'vitest';
import { retryOf } from '../src/conversation/retry.ts';

const said = (role: string, content: string) => ({ id: content, turn_id: 't1', role, content }) as unknown as HistoryMessage;
const frame = (type: string, more: object) => ({ type, turn_id: 't2', ...more }) as unknown as SessionEvent;
const after = (...events: (SessionEvent | Action)[]) => retryOf(events.reduce(reduce, EMPTY).messages);

describe('after the model has failed', () => {
  const failed = frame('error', { seq: 9, error_code: 'LLM_ERROR', message: 'no' });
  const end = frame('turn_end', { reason: 'error', usage: {} });
  const history: Action = { type: 'history', messages: [said('user', 'one'), said('assistant', 'two')], lastSeq: 2, runningTurn: 't2', hasEarlier: false };
  const asked = (...frames: SessionEvent[]) => after(history, frame('user_message', { client_msg_id: 'm', content: 'three' }), ...frames);

  test('the same message is sent again, or the turn goes on if it had made calls', () => {
    expect(asked(failed, end)).toEqual({ text: 'three', attachments: [] });
    expect(asked(frame('tool_call', { call_id: 'c1', tool_name: 'run' }), failed, end)).toEqual({ text: '', attachments: [] });
  });

  test('there is nothing to try again if it has not, or if another message has come since', () => {
    const answer = frame('assistant_message', { message_id: 'a', token: 'x', is_final: true });
    const other = frame('user_message', { client_msg_id: 'o', content: 'four', turn_id: 't3' });
    expect(asked(answer, end)).toBeUndefined();
    expect(asked(frame('error', { seq: 9, error_code: 'RATE_LIMITED', message: 'no' }), end)).toBeUndefined();
    expect(asked(failed, end, other)).toBeUndefined();
  });
});

test('a message that was refused for now can be sent again with its attachments, from the time on that the server says', () => {
  const attachments = [{ type: 'text' as const, name: 'a.txt', content: 'a' }];
  const refused = (code: 'RATE_LIMITED' | 'BUSY' | 'CONTEXT_TOO_LARGE', retryAt?: number) =>
    after({ type: 'prompted', id: 'm', text: 'hello', attachments }, { type: 'prompt_refused', id: 'm', message: 'no', code, retryAt });
  expect(refused('RATE_LIMITED', 5000)).toEqual({ text: 'hello', attachments, at: 5000 });
  expect(refused('BUSY')).toEqual({ text: 'hello', attachments });
  expect(refused('CONTEXT_TOO_LARGE')).toBeUndefined();
});
