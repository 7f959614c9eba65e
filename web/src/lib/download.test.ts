import { expect, it, vi } from "vitest";
import { download } from "./download";

it("a download is one named file of all parts, and its data is released afterwards", async () => {
  vi.useFakeTimers();
  const made = vi.spyOn(URL, "createObjectURL").mockReturnValue("blob:x");
  const gone = vi.spyOn(URL, "revokeObjectURL").mockReturnValue(undefined);
  const clicked: string[] = [];
  vi.spyOn(HTMLAnchorElement.prototype, "click").mockImplementation(function (this: HTMLAnchorElement) {
    clicked.push(`${this.href} ${this.download}`);
  });
  download(["a", "b"], "some.json", "application/json");
  const blob = made.mock.calls[0]?.[0] as Blob;
  expect([blob.type, blob.size]).toEqual(["application/json", 2]);
  expect(clicked).toEqual(["blob:x some.json"]);
  expect(gone).not.toHaveBeenCalled();
  vi.runAllTimers();
  expect(gone).toHaveBeenCalledWith("blob:x");
  vi.useRealTimers();
});
