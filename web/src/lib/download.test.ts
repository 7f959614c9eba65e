import { expect, it, vi } from "vitest";
import { download } from "./download";

it("a download is one named file of all parts, and its data is released afterwards", async () => {
  vi.useFakeTimers();
  const createdUrls = vi.spyOn(URL, "createObjectURL").mockReturnValue("blob:x");
  const revoked = vi.spyOn(URL, "revokeObjectURL").mockReturnValue(undefined);
  const clicked: string[] = [];
  vi.spyOn(HTMLAnchorElement.prototype, "click").mockImplementation(function (this: HTMLAnchorElement) {
    clicked.push(`${this.href} ${this.download}`);
  });
  download(["a", "b"], "some.json", "application/json");
  const blob = createdUrls.mock.calls[0]?.[0] as Blob;
  expect([blob.type, blob.size]).toEqual(["application/json", 2]);
  expect(clicked).toEqual(["blob:x some.json"]);
  expect(revoked).not.toHaveBeenCalled();
  vi.runAllTimers();
  expect(revoked).toHaveBeenCalledWith("blob:x");
  vi.useRealTimers();
});
