/** Message of an error for the user. It may contain text from spans, and must be rendered as a `Message`. */
export function errorText(error: unknown): string {
  // `fetch` throws this if there is no response.
  if (error instanceof TypeError) {
    return "The service cannot be reached. Check the network, and whether the service is running.";
  }
  return error instanceof Error ? error.message : String(error);
}
