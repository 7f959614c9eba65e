import { meQuery, queryClient } from "../api/queries";

/** Must be called after a preview began or ended: the access has changed, and `watchViewer` clears the cache. */
export async function refreshMe(): Promise<void> {
  // The signed-in user is kept meanwhile, so that no page treats the user as signed out.
  await queryClient.fetchQuery({ ...meQuery, staleTime: 0 });
}
