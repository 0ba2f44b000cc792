import { useId } from 'preact/hooks';
import type { ToolCallDraftFrame } from '@codelab/client';
import { counted } from '../i18n/index.ts';
import { Icon } from '../shell/icon.tsx';
import { visible, visibleLine } from './safe.ts';

/** A call that the model is writing. It has no buttons: nothing can be decided before the call comes. */
export function DraftCard({ draft }: { draft: ToolCallDraftFrame }) {
  const { tool_name: tool = '', path, lines = 0, tail } = draft;
  const title = useId();
  return (
    <article class="call draft" aria-labelledby={title} aria-busy="true">
      <header id={title}>
        <Icon name="tool" />
        <code class="tool">{visible(tool)}</code>
        {path && (
          <bdi class="subject" title={visibleLine(path)}>
            {visibleLine(path)}
          </bdi>
        )}
        <span class="state">{counted('call.written', lines)}</span>
      </header>
      {tail && <pre dir="ltr">{visible(tail)}</pre>}
    </article>
  );
}
