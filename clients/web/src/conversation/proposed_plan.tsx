import { type Signal, useSignal } from '@preact/signals';
import type { ActingMode, ToolCallFrame } from '@codelab/client';
import { t } from '../i18n/index.ts';
import { Markdown } from './markdown.tsx';
import { visible, visibleLine } from './safe.ts';

/** A plan that the agent proposes. The explanation is Markdown, and may be empty. */
export interface ProposedPlan {
  steps: readonly string[];
  explanation: string;
}

const ACTING_MODES = ['manual', 'code', 'autonomous'] as const satisfies ActingMode[];

/** The plan that a call proposes; undefined for any other call, and for one whose arguments are none. */
export function proposedPlan({ tool_name: tool, arguments: args }: ToolCallFrame): ProposedPlan | undefined {
  const { steps, explanation = '' } = (args ?? {}) as Record<string, unknown>;
  if (tool !== 'propose_plan' || !Array.isArray(steps) || !steps.length || typeof explanation !== 'string') return undefined;
  return steps.every((step) => typeof step === 'string') ? { steps, explanation } : undefined;
}

/** All steps, which become the task list if the user accepts them. */
export function Steps({ steps }: { steps: readonly string[] }) {
  return (
    <ol class="steps">
      {steps.map((step, index) => (
        <li key={index}>
          <span dir="auto">{visible(step)}</span>
        </li>
      ))}
    </ol>
  );
}

/** What the agent says about its plan. It is prose: only the steps take effect. */
export function Explanation({ text }: { text: string }) {
  return text.trim() ? <Markdown text={visible(text)} /> : null;
}

/** The choice of the mode in which an accepted plan is carried out. */
export function ModeChoice({ mode, onChoice }: { mode: ActingMode; onChoice(mode: ActingMode): void }) {
  return (
    <label class="acts">
      {t('proposed.mode')}
      <select value={mode} onChange={(event) => onChoice(event.currentTarget.value as ActingMode)}>
        {ACTING_MODES.map((one) => (
          <option key={one} value={one}>
            {t(`mode.${one}`)}
          </option>
        ))}
      </select>
    </label>
  );
}

/** The steps as lines that can be rewritten, moved, added and removed. */
export function StepsForm({ steps, text, onAccept, onCancel }: { steps: readonly string[]; text: Signal<string>; onAccept(steps: string[]): void; onCancel(): void }) {
  const problem = useSignal('');
  const accept = (event: Event) => {
    event.preventDefault();
    const accepted = stepsOf(text.value, steps);
    if (accepted.length) onAccept(accepted);
    else problem.value = t('proposed.empty');
  };
  return (
    <form onSubmit={accept}>
      <textarea
        aria-label={t('proposed.lines')}
        dir="auto"
        rows={Math.min(16, text.value.split('\n').length + 1)}
        value={text.value}
        onInput={(event) => (text.value = event.currentTarget.value)}
      />
      <small>{t('proposed.lines')}</small>
      <p class="problem" role="alert">
        {problem.value}
      </p>
      <div class="buttons">
        <button type="submit" class="primary">
          {t('proposed.accept')}
        </button>
        <button type="button" onClick={onCancel}>
          {t('cancel')}
        </button>
      </div>
    </form>
  );
}

/** Steps as text, each in one line. */
export function linesOf(steps: readonly string[]): string {
  return steps.map(visibleLine).join('\n');
}

/** The steps that such a text has. A line that was not changed is the step as the agent wrote it, with all its characters. */
export function stepsOf(text: string, before: readonly string[]): string[] {
  const known = new Map(before.map((step) => [visibleLine(step), step]));
  return text.split('\n').flatMap((line) => known.get(line) ?? (line.trim() || []));
}
