import { notifications } from "@mantine/notifications";
import type { AnyRouter } from "@tanstack/react-router";
import { meQuery, queryClient } from "../api/queries";
import { clearRecentSearches } from "../lib/recentSearches";
import { settleSession } from "./session";

/** Removes all data of the user and leads to the sign-in page. Unsaved changes are lost: they can no longer be saved. */
export async function leave(router: AnyRouter, provider?: string): Promise<void> {
  queryClient.clear();
  clearRecentSearches();
  queryClient.setQueryData(meQuery.queryKey, null);
  try {
    await router.navigate({
      to: "/login",
      search: provider === undefined ? {} : { signed_out: provider },
      ignoreBlocker: true,
    });
  } finally {
    // Only now, so that the dialog covers the page of the former user until it is gone.
    settleSession(false);
    // Errors of the requests that waited are of no use to the next user.
    setTimeout(() => notifications.clean());
  }
}
