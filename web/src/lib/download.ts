/** Starts a download. The parts are not concatenated first, because the result may exceed the maximum length of a string. */
export function download(parts: string[], name: string, type: string): void {
  const url = URL.createObjectURL(new Blob(parts, { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  // The browser reads the data after the click event has been handled.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
