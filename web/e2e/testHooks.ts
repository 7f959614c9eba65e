import { afterAll, afterEach } from "vitest";
import { checkPages, closeBrowser } from "./browser";

afterEach(async ({ task }) => {
  await checkPages(task.result?.state === "fail" ? `${task.file.name} ${task.name}` : null);
});

afterAll(closeBrowser);
