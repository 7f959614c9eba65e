import { Button, Center, Loader } from "@mantine/core";
import { useEffect, useEffectEvent, useRef } from "react";

/** End of a partially loaded list: loads more when it comes near the viewport, or by its button. */
export function LoadMore({ busy, onMore }: { busy: boolean; onMore: () => void }) {
  const sentinel = useRef<HTMLDivElement>(null);
  const loadMore = useEffectEvent(onMore);
  useEffect(() => {
    if (busy || sentinel.current === null) {
      return;
    }
    const observer = new IntersectionObserver(
      (entries) => {
        if (entries.some((entry) => entry.isIntersecting)) {
          loadMore();
        }
      },
      { rootMargin: "600px" },
    );
    observer.observe(sentinel.current);
    return () => observer.disconnect();
  }, [busy]);
  return (
    <Center ref={sentinel} py="sm" aria-busy={busy}>
      {busy ? (
        <Loader size="sm" role="status" aria-label="Loading more" />
      ) : (
        <Button variant="default" size="xs" onClick={onMore}>
          Load more
        </Button>
      )}
    </Center>
  );
}
