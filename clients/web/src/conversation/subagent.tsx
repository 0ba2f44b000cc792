import { memo } from 'preact/compat';
import { useLayoutEffect, useRef } from 'preact/hooks';
import type { CallPart, Message, SubagentPart } from '@codelab/client';
import { counted, t } from '../i18n/index.ts';
import { live } from '../live.ts';
import { Icon } from '../shell/icon.tsx';
import { CallCard } from './call.tsx';
import { Long } from './markdown.tsx';
import { readable, visibleLine } from './safe.ts';

const Card = memo(CallCard);

/** A subagent in one line, which unfolds to its words and calls. What waits for a decision is never folded away. */
export function SubagentView({ part: { id, state, agent, task, text } }: { part: SubagentPart }) {
  const fold = useRef<HTMLDetailsElement>(null);
  const calls = partsOf(messages()).filter((part): part is CallPart => part.type === 'call' && part.call.parent_call_id === id);
  const asks = calls.some((call) => call.state === 'asking');
  const unfold = () => {
    if (asks) fold.current!.open = true;
  };
  useLayoutEffect(unfold, [asks]);
  return (
    <details class={`subagent ${asks ? 'asks' : state}`} ref={fold} onToggle={unfold}>
      <summary>
        <Icon name="chat" />
        <span class="hidden">{t('subagent')} </span>
        <b>{visibleLine(agent)}</b>
        <bdi class="subject" title={visibleLine(task)}>
          {visibleLine(task)}
        </bdi>
        {calls.length > 0 && <span class="note">{counted('subagent.calls', calls.length)}</span>}
        <span class="state">{t(asks ? 'call.asking' : state === 'running' ? 'subagent.running' : `call.${state}`)}</span>
      </summary>
      <div>
        {text && (
          <div class="note" dir="auto">
            <Long text={readable(text)} />
          </div>
        )}
        {calls.map((call) => (
          <Card key={call.id} part={call} />
        ))}
      </div>
    </details>
  );
}

/** The card of a call that is not shown in its subagent's line. */
export function OwnCall({ part }: { part: CallPart }) {
  const maker = part.call.parent_call_id;
  const isInside = maker !== undefined && partsOf(messages()).some((one) => one.type === 'subagent' && one.id === maker);
  return isInside ? null : <CallCard part={part} />;
}

function messages(): readonly Message[] {
  return live.value?.conversation.messages.value ?? [];
}

function partsOf(all: readonly Message[]) {
  return all.flatMap((message) => (message.role === 'assistant' ? message.parts : []));
}
