import { useRouter } from "@tanstack/react-router";
import { useCallback } from "react";

/** Returns a function that tells whether a navigation to another path is pending.
 *
 * Code that changes the URL after a delay must call it first: the change would cancel the navigation. */
export function useIsLeaving(): () => boolean {
  const router = useRouter();
  return useCallback(() => {
    const current = router.state.resolvedLocation;
    return current !== undefined && current.pathname !== router.latestLocation.pathname;
  }, [router]);
}
