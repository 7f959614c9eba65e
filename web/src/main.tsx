import "@mantine/core/styles.css";
import "@mantine/notifications/styles.css";
import "./app/global.css";
import { MantineProvider } from "@mantine/core";
import { Notifications } from "@mantine/notifications";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { onSignedOut } from "./api/client";
import { meQuery, queryClient } from "./api/queries";
import { theme } from "./app/theme";
import { watchViewer } from "./app/viewer";
import { router } from "./routes";

// A session that ended elsewhere: what was shown of it goes, and the page is where log-in leads back to.
onSignedOut(() => {
  queryClient.removeQueries({ predicate: (query) => query.queryKey[0] !== meQuery.queryKey[0] });
  // Results of changes hold one-time passwords and tokens.
  queryClient.getMutationCache().clear();
  queryClient.setQueryData(meQuery.queryKey, null);
  void router.invalidate();
});

// Another account may not be allowed the page that is open.
watchViewer(queryClient, () => void router.invalidate());

const root = document.getElementById("root");
if (root !== null) {
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
