/** The client for Vue 3.3 and later. */

import { onMounted, onScopeDispose, shallowRef, toValue, watch, type MaybeRefOrGetter, type ShallowRef } from "vue";

import type { Conversation } from "./conversation.ts";
import { createConversation } from "./index.ts";
import type { SessionOptions } from "./options.ts";
import { EMPTY, type ConversationState } from "./state.ts";

export interface Codelab {
  /** A snapshot: what has not changed since the last one is the same object. */
  state: Readonly<ShallowRef<ConversationState>>;
  /** What the user does goes through its methods. Undefined before the component is mounted. */
  conversation: Readonly<ShallowRef<Conversation | undefined>>;
}

/**
 * The conversation of a component: opened when it is mounted or `url` or `sessionId` of the options change, closed when
 * it is unmounted. What ends the session is in `state.connection`.
 */
export function useCodelab(options: MaybeRefOrGetter<SessionOptions>): Codelab {
  const state = shallowRef(EMPTY);
  const conversation = shallowRef<Conversation>();
  let stop = () => {};
  const close = () => {
    stop();
    void conversation.value?.close();
  };
  const open = () => {
    close();
    const opened = createConversation(toValue(options));
    conversation.value = opened;
    state.value = opened.state;
    stop = opened.subscribe(() => (state.value = opened.state));
    opened.open().catch(() => {}); // the state says it
  };
  onMounted(() => {
    open();
    watch([() => toValue(options).url, () => toValue(options).sessionId], open);
  });
  onScopeDispose(close);
  return { state, conversation };
}
