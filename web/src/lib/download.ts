/** Gives the reader a file; its parts are not joined first, since together they may be longer than a text can be. */
export function download(parts: string[], name: string, type: string): void {
  const address = URL.createObjectURL(new Blob(parts, { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  // The browser takes the data when the click has been worked off.
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
