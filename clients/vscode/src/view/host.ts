import type { FromView } from "../messages.ts";

/** What is kept while the view is hidden. */
export interface Kept {
  draft: string;
}

interface Host {
  postMessage(message: FromView): void;
  getState(): Kept | undefined;
  setState(state: Kept): void;
}

declare function acquireVsCodeApi(): Host;

/** The extension, as the webview sees it. */
export const host = acquireVsCodeApi();

export function tell(message: FromView): void {
  host.postMessage(message);
}
