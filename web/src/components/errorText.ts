/** Message of an error for the user. It may contain text from spans, and must be rendered through `visible`. */
export function errorText(error: unknown): string {
  // `fetch` throws this if there is no response.
  if (error instanceof TypeError) {
    return "The service cannot be reached. Look at the network, or whether it runs.";
  }
  return error instanceof Error ? error.message : String(error);
}
