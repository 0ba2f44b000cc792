/** What a session loads when a frame goes by reference for the first time. */

export { PayloadHosts } from "./payload_hosts.ts";
export { download } from "./transfer.ts";
export { Uploads } from "./uploads.ts";
