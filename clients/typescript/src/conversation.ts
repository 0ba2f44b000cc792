import { SessionError, messageOf } from "./errors.ts";
import type { SessionEvent } from "./events.ts";
import { Listeners } from "./listeners.ts";
import type { Read } from "./history.ts";
import type { AckFrame, Attachment } from "./protocol.ts";
import { reduce, type Action } from "./reduce.ts";
import { overHttp, type OverHttp } from "./rest.ts";
import type { Answer, PromptOptions, Session } from "./session.ts";
import { EMPTY, type ConversationState } from "./state.ts";

/** Listeners are told at most so often, in milliseconds: a replay is thousands of frames. */
const TOLD_MS = 16;
/** Tries to read the history after frames were missed, and the pause after the first; each is twice as long as the one before. */
const TRIES = 5;
const PAUSE_MS = 1_000;

/**
 * A session with the state that it shows, for a view: `state` is a snapshot that never changes, and `subscribe` tells that
 * there is another one. What the user does here goes through its methods, so that the state shows it at once. After
 * `edit` and `regenerate`, it goes on in another session.
 */
export class Conversation {
  readonly #create: (sessionId?: string) => Session;
  readonly #listeners = new Listeners();
  #session!: Session;
  #state = EMPTY;
  /** Whether the server may have messages of the session. */
  #isOld = false;
  #isClosed = false;
  /** Asks for the page of the history before those that were read. */
  #earlier: string | undefined;
  #unfollow = () => {};
  #telling: ReturnType<typeof setTimeout> | undefined;
  #toldAt = 0;

  /** `create` makes a new session, or that with an id. */
  constructor(create: (sessionId?: string) => Session, id?: string) {
    this.#create = create;
    this.#follow(id);
  }

  /** For all that is not here. */
  get session(): Session {
    return this.#session;
  }

  #follow(id: string | undefined): void {
    this.#unfollow();
    this.#isOld = id !== undefined;
    this.#earlier = undefined;
    const session = this.#create(id);
    this.#session = session;
    this.#set(EMPTY);
    this.#unfollow = session.on("*", (event) => {
      this.dispatch(event);
      if (event.type === "resync_required") void this.#readAgain(session);
    });
  }

  get state(): ConversationState {
    return this.#state;
  }

  /** Have `listener` called when there is another state, at most every 16 ms. Returns what stops that. */
  readonly subscribe: (listener: () => void) => () => void = this.#listeners.on;

  /** Take something that the session's events do not tell. */
  dispatch(action: Action | SessionEvent): void {
    this.#set(reduce(this.#state, action));
  }

  #set(state: ConversationState): void {
    if (state === this.#state) return;
    this.#state = state;
    this.#telling ??= setTimeout(this.#tell, Math.max(0, this.#toldAt + TOLD_MS - Date.now()));
  }

  readonly #tell = (): void => {
    this.#telling = undefined;
    this.#toldAt = Date.now();
    this.#listeners.tell();
  };

  // -- opening and closing -------------------------------------------------------------------------------------

  /** Read the history, and connect. Settles when everything missed has been replayed. Throws a SessionError. */
  async open(): Promise<this> {
    const session = this.#session;
    try {
      if (this.#isOld) await this.history();
      await session.open();
    } catch (error) {
      if (session === this.#session) this.dispatch({ type: "ended", error: error as Error });
      throw error;
    }
    return this;
  }

  close(): Promise<void> {
    this.#isClosed = true;
    return this.#session.close();
  }

  /**
   * Read the history: the newest page at first, then the page before, as long as `state.hasEarlier`. Throws a SessionError.
   */
  async history(): Promise<void> {
    const session = this.#session;
    const { rest, sessionId } = session;
    if (this.#earlier !== undefined) await this.#read(session, ({ earlierHistory }) => earlierHistory(rest, sessionId, this.#earlier!));
    else if (rest.url && (!this.#state.messages.length || this.#state.isStale)) await this.#readNewest(session);
  }

  #readNewest(session: Session): Promise<void> {
    return this.#read(session, ({ newestHistory }) => newestHistory(session.rest, session.sessionId));
  }

  async #read(session: Session, read: (http: OverHttp) => Promise<Read | undefined>): Promise<void> {
    const http = await overHttp();
    const found = await read(http);
    if (!found || session !== this.#session) return;
    this.#earlier = found.earlier;
    this.#set(http.reduceHistory(reduce, this.#state, found.page));
  }

  /** Frames are missing that the log does not have any more. */
  async #readAgain(session: Session): Promise<void> {
    for (let tried = 0; session === this.#session && this.#state.connection.state !== "ended"; tried++) {
      try {
        return await this.#readNewest(session);
      } catch (error) {
        if (tried === TRIES) return this.#failed(error);
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS * 2 ** tried));
      }
    }
  }

  // -- what the user does --------------------------------------------------------------------------------------

  /** Send a message. What becomes of it, and a refusal, is in the state. */
  prompt(text: string, options: PromptOptions = {}): void {
    const turn = this.session.prompt(text, options);
    const attachments = (options.attachments ?? []) as readonly Attachment[];
    this.dispatch({ type: "prompted", id: turn.id, text, attachments });
    turn.ended.catch(() => {});
    turn.accepted.then(
      () => this.dispatch({ type: "prompt_accepted", id: turn.id }),
      (error: SessionError) => {
        const { message, code, retryAfter } = error;
        const retryAt = retryAfter === undefined ? undefined : Date.now() + retryAfter * 1000;
        this.dispatch({ type: "prompt_refused", id: turn.id, message, code, retryAt });
      },
    );
  }

  /** Decide about a call. If the server refuses the decision, the state says so, and the call keeps waiting. */
  async answer(callId: string, answer: Answer): Promise<void> {
    this.dispatch({ type: "decided", callId, answer });
    await this.session.answer(callId, answer).then(
      () => this.dispatch({ type: "decision_accepted", callId, answer }),
      () => {}, // its `error` is an event
    );
  }

  /** Stop the running turn. */
  async cancel(): Promise<void> {
    await this.#try(this.session.cancel());
  }

  /** Take back a message that waits. */
  async withdraw(id: string): Promise<void> {
    this.dispatch({ type: "withdrawn", client_msg_ids: [id] });
    await this.#try(this.session.withdraw(id));
  }

  async #try(reply: Promise<AckFrame>): Promise<void> {
    await reply.catch((error: unknown) => this.#failed(error));
  }

  #failed(error: unknown): void {
    const code = error instanceof SessionError ? error.code : undefined;
    this.dispatch({ type: "failed", message: messageOf(error), code });
  }

  /**
   * Send a message in place of an earlier one (its `id`): in a fork of the session that ends before it, where this
   * conversation goes on. The session stays as it is. Throws a SessionError, or an Error if the history does not have
   * the message.
   */
  async edit(messageId: string, text: string, options: PromptOptions = {}): Promise<void> {
    const session = this.#session;
    const forkId = await (await overHttp()).forkBefore(session.rest, session.sessionId, messageId);
    if (this.#isClosed || session !== this.#session) return;
    this.#follow(forkId);
    void session.close();
    await this.open();
    this.prompt(text, options);
  }

  /** Have the last message of the user answered anew, as by `edit`. Throws an Error if not all of it is here. */
  async regenerate(): Promise<void> {
    const last = this.#state.messages.findLast((message) => message.role === "user");
    if (last?.role !== "user" || !last.isWhole) throw new Error("There is no message that could be sent again");
    await this.edit(last.id, last.text, { attachments: last.attachments as readonly Attachment[] });
  }
}
