/** What a session loads before it executes calls, or when its user decides about one. */

export { Calls } from "./calls.ts";
export { Decisions } from "./decisions.ts";
