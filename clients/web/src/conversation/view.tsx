import { useSignal } from '@preact/signals';
import { memo } from 'preact/compat';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import type { ConversationState, Message, Part, TextPart, ThoughtPart, TurnState, UserMessage } from '@codelab/client';
import { causeOf, counted, n, reasonOf, t, type Key } from '../i18n/index.ts';
import { type Live, link, send, sendInstead } from '../live.ts';
import { CopyButton } from '../shell/copy.tsx';
import { Icon } from '../shell/icon.tsx';
import { showFiles } from '../shell/panes.ts';
import { Problem } from '../shell/problem.tsx';
import { folder } from '../workspace/open.ts';
import { actOf } from './act.ts';
import { ApproveTogether } from './approve_together.tsx';
import { AttachmentView } from './attachments.tsx';
import { Composer, edit } from './composer.tsx';
import { DraftCard } from './draft.tsx';
import { Long, Markdown } from './markdown.tsx';
import { Plan } from './plan.tsx';
import { QueueView } from './queue.tsx';
import { asSent, retryOf } from './retry.ts';
import { visible } from './safe.ts';
import { OwnCall, SubagentView } from './subagent.tsx';

/** Seconds after which it is shown how long something takes. */
const SHOWN_SECONDS = 2;
/** The name of the demonstration model. */
const DEMONSTRATION = 'demonstration';
/** Pixels from the end within which the view follows what is written. */
const NEAR = 80;

export function ConversationView({ live }: { live: Live }) {
  const { conversation } = live;
  const scroller = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const following = useSignal(true);
  /** Where the view was last. */
  const top = useRef(0);

  useLayoutEffect(() => {
    const element = scroller.current!;
    following.value = true;
    top.current = 0;
    // The first screen is read from its top.
    const toEnd = () => following.value && conversation.messages.peek().length && (element.scrollTop = element.scrollHeight);
    const watch = new ResizeObserver(toEnd);
    watch.observe(content.current!);
    watch.observe(element);
    return () => watch.disconnect();
  }, [live]);
  const scrolled = () => {
    const element = scroller.current!;
    // What is written between a scroll and its event is no wish of the user's: only a way up is one.
    if (element.scrollHeight - element.scrollTop - element.clientHeight < NEAR) following.value = true;
    else if (element.scrollTop < top.current) following.value = false;
    top.current = element.scrollTop;
  };
  const messages = conversation.messages.value;
  const ends = endsOf(messages, conversation.turns.value);
  return (
    <div class="conversation">
      <div class="scroller" ref={scroller} onScroll={scrolled} tabIndex={0} role="region" aria-label={t('chat.label')}>
        <div class="column" ref={content}>
          {conversation.hasEarlier.value && <Earlier live={live} />}
          {messages.length === 0 && <Welcome model={conversation.info.value?.model} />}
          {messages.map((message) => (
            <MessageView key={message.id} message={message} end={ends.get(message)} />
          ))}
          <ApproveTogether />
          <Again live={live} />
          <Retry live={live} />
        </div>
      </div>
      <div class="dock">
        {!following.value && (
          <button
            type="button"
            class="to-end"
            aria-label={t('chat.down')}
            onClick={() => {
              following.value = true;
              scroller.current!.scrollTop = scroller.current!.scrollHeight;
            }}
          >
            <Icon name="down" />
          </button>
        )}
        <Plan items={conversation.plan.value} />
        <QueueView live={live} />
        <StatusLine live={live} />
        <Composer live={live} />
      </div>
    </div>
  );
}

function Earlier({ live }: { live: Live }) {
  const problem = useSignal('');
  const load = () => {
    problem.value = '';
    live.conversation.source.history().catch((error: unknown) => (problem.value = reasonOf(error)));
  };
  return (
    <>
      <Problem text={problem.value} />
      <button type="button" class="quiet" onClick={load}>
        {t('chat.earlier')}
      </button>
    </>
  );
}

/** A button that has the last message answered anew. */
function Again({ live }: { live: Live }) {
  const problem = useSignal('');
  const { status, turns } = live.conversation;
  const messages = live.conversation.messages.value;
  const last = messages.findLast((message) => message.role === 'user');
  const newest = messages.at(-1);
  const isOver = newest && endsOf(messages, turns.value).has(newest) && status.value === 'idle' && !retryOf(messages);
  if (!isOver || last?.role !== 'user' || !last.isWhole || link.value.state !== 'online') return null;
  const again = () =>
    void sendInstead(last.id, last.text, asSent(last).attachments).catch((error: unknown) => (problem.value = reasonOf(error)));
  return (
    <div class="again">
      <button type="button" class="quiet" onClick={again}>
        {t('chat.again')}
      </button>
      <p class="problem" role="alert">
        {problem.value}
      </p>
    </div>
  );
}

/** A button behind a turn in which the model failed, or behind a message that was refused for now: then it says for how long. */
function Retry({ live }: { live: Live }) {
  const { conversation } = live;
  const now = useSignal(Date.now());
  const again = retryOf(conversation.messages.value);
  const seconds = Math.max(0, Math.ceil(((again?.at ?? 0) - now.value) / 1000));
  useEffect(() => {
    now.value = Date.now();
    const timer = again?.at === undefined ? undefined : setInterval(() => (now.value = Date.now()), 500);
    return () => clearInterval(timer);
  }, [again?.at]);
  const isIdle = conversation.status.value === 'idle' || conversation.status.value === 'error';
  if (!again || !isIdle || link.value.state !== 'online') return null;
  return (
    <button type="button" disabled={seconds > 0} onClick={() => send(again.text || t('chat.goon'), again.attachments)}>
      {seconds ? t('chat.retry.in', { s: n(seconds) }) : t('chat.retry')}
    </button>
  );
}

/** Who answers if there is no model, and how to connect one: folded where there is little room. */
function Demonstration() {
  return (
    <details class="note model" open={!matchMedia('(width < 40rem)').matches}>
      <summary>
        <b>{t('chat.demo')}</b> {t('chat.demo.text')}
      </summary>
      <ul>
        <li>
          <code>.venv/bin/codelab setup</code> {t('chat.demo.setup')}
        </li>
        <li>
          <code>.venv/bin/codelab setup --gguf FILE</code> {t('chat.demo.gguf')}
        </li>
        <li>
          <code>LLM_BASE_URL=… LLM_API_KEY=… LLM_MODEL=… make run</code> {t('chat.demo.once')}
        </li>
      </ul>
    </details>
  );
}

function Welcome({ model }: { model: string | undefined }) {
  const open = folder.value;
  return (
    <section class="welcome">
      <h2>{t('chat.empty')}</h2>
      <p>{t('chat.empty.text')}</p>
      <p class="note">
        {open ? t('chat.folder', { name: visible(open.name) }) : t('files.none')}{' '}
        <button type="button" class="quiet" onClick={showFiles}>
          {t('chat.folder.other')}
        </button>
      </p>
      {model === DEMONSTRATION ? <Demonstration /> : <p class="note model">{model === undefined ? '\u00a0' : t('chat.model', { model: visible(model) })}</p>}
      <ul aria-label={t('chat.try')}>
        {(['chat.try.1', 'chat.try.2', 'chat.try.3'] as const).map((key) => (
          <li key={key}>
            <button type="button" disabled={link.value.state !== 'online'} onClick={() => send(t(key), [])}>
              {t(key)}
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** The last message of each turn of which it is known how it ended, with that turn. */
function endsOf(messages: ConversationState['messages'], turns: ConversationState['turns']): ReadonlyMap<Message, TurnState> {
  const last = new Map(messages.map((message) => [message.turnId, message]));
  return new Map(turns.flatMap((turn) => (turn.end && last.has(turn.id) ? [[last.get(turn.id)!, turn] as const] : [])));
}

const MessageView = memo(function MessageView({ message, end }: { message: Message; end: TurnState | undefined }) {
  return (
    <>
      {message.role === 'user' ? <UserView message={message} /> : message.parts.map((part) => <PartView key={part.id} part={part} />)}
      {end && <EndView end={end} />}
    </>
  );
});

/** A part of what the agent says and does. The plan is shown above the message field. */
const PartView = memo(function PartView({ part }: { part: Part }) {
  switch (part.type) {
    case 'text':
      return <Answer part={part} />;
    case 'thought':
      return <Thought part={part} />;
    case 'draft':
      return <DraftCard draft={part.draft} />;
    case 'call':
      return <OwnCall part={part} />;
    case 'subagent':
      return <SubagentView part={part} />;
    case 'plan':
      return null;
    case 'switch':
      return (
        <p class="note" title={visible(part.reason)}>
          {t('agent')}: {t('chat.switched', { from: visible(part.from), to: visible(part.to) })}
        </p>
      );
    case 'error': {
      const { title, words } = causeOf(part.code ?? '', part.message);
      return (
        <div class="failure" role="alert">
          <Icon name="warn" />
          <p dir="auto">
            {title && <b>{title}. </b>}
            {visible(words)}
          </p>
          {part.code && <code>{part.code}</code>}
        </div>
      );
    }
    case 'compacted':
      return <p class="note">{t(`compact.${part.outcome}`, { before: n(part.before), after: n(part.after) })}</p>;
  }
});

function EndView({ end: { end } }: { end: TurnState }) {
  const { prompt_tokens, completion_tokens, llm_calls, cost_usd } = end!.usage;
  const key = `turn.${end!.reason}` as Key;
  return (
    <p class="note end">
      <span>{t(key)}</span>
      <span>{`${t('turn.usage', { prompt: n(prompt_tokens ?? 0), completion: n(completion_tokens ?? 0) })}, ${counted('turn.calls', llm_calls ?? 0)}`}</span>
      {cost_usd != null && <span>${cost_usd.toFixed(4)}</span>}
    </p>
  );
}

function UserView({ message }: { message: UserMessage }) {
  const { text, attachments, state, isWhole } = message;
  return (
    <article class={`said ${state}`} aria-label={t('chat.you')}>
      <div class="words" dir="auto">
        <Long text={text} />
      </div>
      {attachments.length > 0 && (
        <div class="images">
          {attachments.map((one, index) => (
            <AttachmentView key={index} attachment={one} alt={one.name ?? ''} />
          ))}
        </div>
      )}
      {state === 'sending' && <small>{t('chat.sending')}</small>}
      {state === 'sent' && isWhole && (
        <button type="button" class="quiet edit" aria-label={t('chat.rewrite')} title={t('chat.rewrite')} onClick={() => edit({ id: message.id, ...asSent(message) })}>
          {t('chat.edit')}
        </button>
      )}
    </article>
  );
}

function Answer({ part: { text, isFinal, agent } }: { part: TextPart }) {
  return (
    <article class={`answer ${isFinal ? '' : 'writing'}`} aria-label={agent || t('agent')} aria-busy={!isFinal}>
      <Markdown text={text} />
      {isFinal && text.trim() && (
        <div class="deeds">
          <CopyButton text={text} label={t('chat.copy')} />
        </div>
      )}
    </article>
  );
}

function Thought({ part }: { part: ThoughtPart }) {
  return (
    <details class="thought">
      <summary>{t('chat.thought')}</summary>
      <div dir="auto">
        <Long text={part.text} />
      </div>
    </details>
  );
}

/** One line of constant height: what the agent does, or what is wrong with the connection. */
function StatusLine({ live }: { live: Live }) {
  const now = useSignal(Date.now());
  const begun = useRef({ key: '', at: 0 });
  const status = live.conversation.status.value;
  const isBusy = status === 'thinking' || status === 'executing_tool';
  const act = isBusy ? actOf({ messages: live.conversation.messages.value, turns: live.conversation.turns.value }) : undefined;
  const key = isBusy ? (act?.key ?? 'thinking') : '';
  if (begun.current.key !== key) begun.current = { key, at: Date.now() };
  const ticks = key !== '' || 'until' in link.value;
  useEffect(() => {
    if (!ticks) return;
    now.value = Date.now();
    const timer = setInterval(() => (now.value = Date.now()), 500);
    return () => clearInterval(timer);
  }, [ticks, key]);
  const seconds = Math.floor((now.value - begun.current.at) / 1000);
  const state = link.value;
  const pause = 'until' in state ? t(`link.${state.state}`, { s: Math.max(0, Math.ceil((state.until - now.value) / 1000)) }) : '';
  return (
    <p class={`status ${status}`} role="status">
      {pause || (status === 'idle' ? '' : act ? t(act.text, { what: act.what }) : t(`status.${status}`))}
      {/* What changes all the time is not read aloud. */}
      {!pause && act?.lines ? <span aria-hidden="true">{counted('act.lines', act.lines)}</span> : null}
      {!pause && key && seconds >= SHOWN_SECONDS && <span aria-hidden="true">{t('act.seconds', { s: n(seconds) })}</span>}
    </p>
  );
}
