import "@mantine/core/styles.css";
import "@mantine/notifications/styles.css";
import "./app/global.css";
import { MantineProvider } from "@mantine/core";
import { Notifications } from "@mantine/notifications";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { queryClient } from "./api/queries";
import { watchSession } from "./app/session";
import { theme } from "./app/theme";
import { watchViewer } from "./app/viewer";
import { router } from "./routes";

watchSession();

// Another user may not have access to the current page.
watchViewer(queryClient, () => void router.invalidate());

/** Removes the outline of `index.html` once the application shows something. */
function removeOutline(root: HTMLElement): void {
  const observer = new MutationObserver(() => {
    if ([...root.children].some((child) => child.tagName !== "STYLE")) {
      document.querySelector(".outline")?.remove();
      observer.disconnect();
    }
  });
  observer.observe(root, { childList: true });
}

const root = document.getElementById("root");
if (root !== null) {
  removeOutline(root);
  createRoot(root).render(
    <StrictMode>
      <MantineProvider theme={theme} defaultColorScheme="auto">
        <Notifications position="bottom-right" />
        <QueryClientProvider client={queryClient}>
          <RouterProvider router={router} />
        </QueryClientProvider>
      </MantineProvider>
    </StrictMode>,
  );
}
