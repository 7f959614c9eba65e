import type { QueryClient } from "@tanstack/react-query";
import type { Api } from "../api/client";
import { meQuery } from "../api/queries";

function viewerOf({ id, preview }: Api["Me"]): string {
  return JSON.stringify([id, preview]);
}

/** Lets go of all answers when others come to look at them: what one may see says nothing of what another may.
 *
 * The session is the browser's, not the page's: a log-in or a preview in another window changes whom this one answers. */
export function watchViewer(client: QueryClient, onOther: () => void): () => void {
  const isMe = (key: readonly unknown[]) => key[0] === meQuery.queryKey[0];
  let known: Api["Me"] | null = client.getQueryData(meQuery.queryKey) ?? null;
  return client.getQueryCache().subscribe((event) => {
    if (event.type !== "updated" || event.action.type !== "success" || !isMe(event.query.queryKey)) {
      return;
    }
    const me = client.getQueryData(meQuery.queryKey) ?? null;
    // Nobody sees anything, and that a session ended is acted upon where it is noticed.
    if (me === null) {
      return;
    }
    const before = known;
    known = me;
    if (before === null || viewerOf(before) === viewerOf(me)) {
      return;
    }
    void client.resetQueries({ predicate: (query) => !isMe(query.queryKey) });
    if (before.id !== me.id) {
      // Results of changes hold one-time passwords and tokens.
      client.getMutationCache().clear();
      onOther();
    }
  });
}
