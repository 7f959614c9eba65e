import { Button, Center, Loader } from "@mantine/core";
import { useEffect, useEffectEvent, useRef } from "react";

/** End of a partially loaded list: loads more when it comes near the viewport, or by its button. */
export function MoreRows({ busy, onMore }: { busy: boolean; onMore: () => void }) {
  const mark = useRef<HTMLDivElement>(null);
  const near = useEffectEvent(onMore);
  useEffect(() => {
    if (busy || mark.current === null) {
      return;
    }
    const observer = new IntersectionObserver(
      (entries) => {
        if (entries.some((entry) => entry.isIntersecting)) {
          near();
        }
      },
      { rootMargin: "600px" },
    );
    observer.observe(mark.current);
    return () => observer.disconnect();
  }, [busy]);
  return (
    <Center ref={mark} py="sm" aria-busy={busy}>
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
