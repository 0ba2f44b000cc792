/** Those who want to be told of something. */
export class Listeners<Told = void> {
  readonly #listeners = new Set<(told: Told) => void>();

  /** Call `listener` from now on. Returns what stops that. */
  readonly on = (listener: (told: Told) => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  get areThere(): boolean {
    return this.#listeners.size > 0;
  }

  tell(told: Told): void {
    for (const listener of this.#listeners) {
      try {
        listener(told);
      } catch (error) {
        console.error("codelab: a listener failed:", error);
      }
    }
  }
}
