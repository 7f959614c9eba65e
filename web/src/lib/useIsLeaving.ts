import { useRouter } from "@tanstack/react-router";
import { useCallback } from "react";

/** Tells whether the user is on the way to another page, which may still be loading.
 *
 * Code that changes the URL after a delay must ask first: the change would take the user back. */
export function useIsLeaving(): () => boolean {
  const router = useRouter();
  return useCallback(() => {
    const current = router.state.resolvedLocation;
    return current !== undefined && current.pathname !== router.latestLocation.pathname;
  }, [router]);
}
