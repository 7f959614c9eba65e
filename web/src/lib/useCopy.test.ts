import { notifications } from "@mantine/notifications";
import { act, renderHook } from "@testing-library/react";
import { expect, it, vi } from "vitest";
import { useCopy } from "./useCopy";

it("confirms for a moment that a text was copied", async () => {
  const write = vi.spyOn(navigator.clipboard, "writeText").mockResolvedValue();
  vi.useFakeTimers();
  const { result } = renderHook(useCopy);
  await act(() => result.current.copy("text"));
  expect(write).toHaveBeenCalledWith("text");
  expect(result.current.copied).toBe(true);
  act(() => void vi.runAllTimers());
  expect(result.current.copied).toBe(false);
  vi.useRealTimers();
});

it("shows a notification if the browser does not permit copying", async () => {
  vi.spyOn(navigator.clipboard, "writeText").mockRejectedValue(new DOMException("no", "NotAllowedError"));
  const show = vi.spyOn(notifications, "show").mockReturnValue("");
  const { result } = renderHook(useCopy);
  await act(() => result.current.copy("text"));
  expect(result.current.copied).toBe(false);
  expect(show).toHaveBeenCalledOnce();
});
