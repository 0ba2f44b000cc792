/** The modes of a session, as the user reads them. */
export const MODES = [
  { mode: "ask", text: "Only read" },
  { mode: "plan", text: "Plan before any change" },
  { mode: "manual", text: "Ask for every change" },
  { mode: "code", text: "Ask for dangerous changes" },
  { mode: "autonomous", text: "Ask only for commands" },
] as const;
