/** What a session loads when a frame goes by reference for the first time. */

export { Transfers } from "./transfers.ts";
