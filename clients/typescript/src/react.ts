/** The client for React 18 and later. */

import { useEffect, useInsertionEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";

import type { Conversation } from "./conversation.ts";
import { createConversation } from "./index.ts";
import type { SessionOptions } from "./options.ts";
import { EMPTY, type ConversationState } from "./state.ts";
import type { CatalogueTools, Tool } from "./tools.ts";

export interface Codelab {
  /** A snapshot: what has not changed since the last one is the same object. */
  state: ConversationState;
  /** What the user does goes through its methods. Undefined before the component is mounted. */
  conversation: Conversation | undefined;
}

/**
 * The conversation of a component: opened when it is mounted or `url` or `sessionId` change, closed when it is
 * unmounted. `tools` are those of the newest rendering, by the names of the first; other options are those of the first.
 * What ends the session is in `state.connection`.
 */
export function useCodelab(options: SessionOptions): Codelab {
  const [conversation, setConversation] = useState<Conversation>();
  const newest = useRef(options);
  useInsertionEffect(() => {
    newest.current = options;
  });
  useEffect(() => {
    const opened = createConversation({ ...newest.current, tools: newestTools(newest) });
    setConversation(opened);
    opened.open().catch(() => {}); // the state says it
    return () => void opened.close();
  }, [options.url, options.sessionId]);
  const subscribe = useMemo(() => conversation?.subscribe ?? (() => () => {}), [conversation]);
  const snapshot = () => conversation?.state ?? EMPTY;
  return { state: useSyncExternalStore(subscribe, snapshot, () => EMPTY), conversation };
}

function newestTools(newest: { current: SessionOptions }): CatalogueTools {
  const names = Object.keys(newest.current.tools ?? {}) as (keyof CatalogueTools)[];
  const tool = (name: keyof CatalogueTools): Tool => (args, context) => (newest.current.tools?.[name] as Tool)(args, context);
  return Object.fromEntries(names.map((name) => [name, tool(name)]));
}
