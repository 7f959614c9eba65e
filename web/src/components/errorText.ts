/** What an error says, for people. It may hold text from spans: to be shown through `visible`. */
export function errorText(error: unknown): string {
  // What `fetch` throws without an answer.
  if (error instanceof TypeError) {
    return "The service cannot be reached. Look at the network, or whether it runs.";
  }
  return error instanceof Error ? error.message : String(error);
}
