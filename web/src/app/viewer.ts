import type { QueryClient } from "@tanstack/react-query";
import type { Api } from "../api/client";
import { meQuery } from "../api/queries";
import { keepSearchesOf } from "../lib/recentSearches";

function viewerKey({ id, preview }: Api["Me"]): string {
  return JSON.stringify([id, preview]);
}

/** Clears the cache when the user or the user's access changes, because cached responses belong to the previous access.
 *
 * The session belongs to the browser, not to the page: a sign-in or a preview in another window changes the user of this page. */
export function watchViewer(client: QueryClient, onUserChange: () => void): () => void {
  const isMe = (key: readonly unknown[]) => key[0] === meQuery.queryKey[0];
  let current: Api["Me"] | null = client.getQueryData(meQuery.queryKey) ?? null;
  return client.getQueryCache().subscribe((event) => {
    if (event.type !== "updated" || event.action.type !== "success" || !isMe(event.query.queryKey)) {
      return;
    }
    const me = client.getQueryData(meQuery.queryKey) ?? null;
    // After a sign-out, no cached data is shown. Other code handles the end of a session.
    if (me === null) {
      return;
    }
    const previous = current;
    current = me;
    keepSearchesOf(me.id);
    if (previous === null || viewerKey(previous) === viewerKey(me)) {
      return;
    }
    void client.resetQueries({ predicate: (query) => !isMe(query.queryKey) });
    if (previous.id !== me.id) {
      // Results of mutations contain one-time passwords and tokens.
      client.getMutationCache().clear();
      onUserChange();
    }
  });
}
