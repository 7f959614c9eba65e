import { afterAll, afterEach } from "vitest";
import { closeAll, examine } from "./browser";

afterEach(async ({ task }) => {
  await examine(task.result?.state === "fail" ? `${task.file.name} ${task.name}` : null);
});

afterAll(closeAll);
