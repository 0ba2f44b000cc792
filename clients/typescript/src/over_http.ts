/** What is loaded when something is first asked for over HTTP. */

export { earlierHistory, forkBefore, newestHistory } from "./history.ts";
export { reduceHistory } from "./history_state.ts";
export { request, send } from "./requests.ts";
